-- The window part of Nexmark's q7: the highest price of each 10 s, and how many bids it was chosen from.
CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/bid.json', 'format' = 'json');

CREATE TABLE sink (top BIGINT, num BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)) WITH (${SINK});

INSERT INTO sink
SELECT MAX(price) AS top, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
GROUP BY window_start, window_end;
