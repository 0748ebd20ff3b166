-- A tumbling window with the usual aggregates.
SET 'table.local-time-zone' = 'UTC';
CREATE TABLE orders (
  id BIGINT, customer STRING, city STRING, product STRING, price DECIMAL(10, 2), qty INT, rate DOUBLE, note STRING,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json');

CREATE TABLE answer (
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), city STRING, orders BIGINT, total DECIMAL(38, 2), mean DECIMAL(38, 6),
  least DECIMAL(10, 2), most DECIMAL(10, 2), pieces INT, notes BIGINT, customers BIGINT, dear BIGINT
) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'json');

INSERT INTO answer
SELECT window_start, window_end, city, COUNT(*), SUM(price * qty), AVG(price), MIN(price), MAX(price), SUM(qty), COUNT(note),
  COUNT(DISTINCT customer), COUNT(*) FILTER (WHERE price > 80)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, city;
