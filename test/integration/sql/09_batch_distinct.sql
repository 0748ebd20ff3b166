-- Batch: groups with DISTINCT and FILTER, cubes, HAVING, and a distinct projection.
SET 'table.local-time-zone' = 'UTC';
SET 'execution.runtime-mode' = 'batch';
CREATE TABLE orders (
  id BIGINT, customer STRING, city STRING, product STRING, price DECIMAL(10, 2), qty INT, rate DOUBLE, note STRING,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json');

CREATE TABLE answer (
  city STRING, product STRING, customers BIGINT, dear_customers BIGINT, prices BIGINT, n BIGINT, spent DECIMAL(38, 2), mean DOUBLE, spread DOUBLE
) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'json');

INSERT INTO answer
SELECT city, product, COUNT(DISTINCT customer), COUNT(DISTINCT customer) FILTER (WHERE price > 80), COUNT(DISTINCT price),
  COUNT(*), SUM(price * qty), ROUND(AVG(CAST(qty AS DOUBLE)), 6), ROUND(STDDEV_POP(CAST(qty AS DOUBLE)), 6)
FROM orders
GROUP BY CUBE (city, product)
HAVING COUNT(*) > 100
UNION ALL
SELECT DISTINCT city, 'any', CAST(0 AS BIGINT), CAST(0 AS BIGINT), CAST(0 AS BIGINT), CAST(0 AS BIGINT), CAST(0 AS DECIMAL(38, 2)), CAST(0 AS DOUBLE), CAST(0 AS DOUBLE) FROM orders;
