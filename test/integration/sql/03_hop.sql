-- A sliding window, and HAVING over it.
SET 'table.local-time-zone' = 'UTC';
CREATE TABLE orders (
  id BIGINT, customer STRING, city STRING, product STRING, price DECIMAL(10, 2), qty INT, rate DOUBLE, note STRING,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json');

CREATE TABLE answer (
  product STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), orders BIGINT, pieces INT, best DECIMAL(10, 2)
) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'json');

INSERT INTO answer
SELECT product, window_start, window_end, COUNT(*), SUM(qty), MAX(price)
FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '2' MINUTE))
GROUP BY window_start, window_end, product
HAVING COUNT(*) > 5;
