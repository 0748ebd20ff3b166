-- Departures from New York's three airports, by hour of departure: how many, how late, how far.
--
--   go run ./cmd/tidemark run examples/flights/hourly.sql
--
-- Plain Flink SQL. Reports reach us late and out of order, so an hour is counted in event time
-- (departed_at) and is complete when the watermark passes its end, five minutes behind the
-- newest departure seen. Reports that come later than that are counted as late.

CREATE TABLE departures (
  flight_id   STRING,
  carrier     STRING,
  origin      STRING,
  dest        STRING,
  distance    BIGINT,        -- miles
  dep_delay   INT,           -- minutes; negative when early
  departed_at TIMESTAMP(3),
  WATERMARK FOR departed_at AS departed_at - INTERVAL '5' MINUTE
) WITH (
  'connector' = 'filesystem',
  'path'      = 'examples/flights/data/departures-2013-01.jsonl.gz',
  'format'    = 'json'
);

SELECT
  window_start                                  AS `hour`,
  origin,
  COUNT(*)                                      AS departures,
  ROUND(AVG(CAST(dep_delay AS DOUBLE)), 1)      AS delay,      -- mean, minutes
  SUM(distance)                                 AS distance    -- miles
FROM TABLE(TUMBLE(TABLE departures, DESCRIPTOR(departed_at), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, origin;
