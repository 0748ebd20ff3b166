-- Bids on some auctions: a filter that few rows pass.
CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/bid.json', 'format' = 'json');

CREATE TABLE sink (auction BIGINT, price BIGINT) WITH (${SINK});

INSERT INTO sink
SELECT auction, price
FROM bid
WHERE MOD(auction, 123) = 0;
