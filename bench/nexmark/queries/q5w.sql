-- The window part of Nexmark's q5: bids on each auction in the last 10 s, every 2 s (hop window).
CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/bid.json', 'format' = 'json');

CREATE TABLE sink (auction BIGINT, num BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)) WITH (${SINK});

INSERT INTO sink
SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end;
