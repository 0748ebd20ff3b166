-- Sessions a customer.
SET 'table.local-time-zone' = 'UTC';
CREATE TABLE orders (
  id BIGINT, customer STRING, city STRING, product STRING, price DECIMAL(10, 2), qty INT, rate DOUBLE, note STRING,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json');

CREATE TABLE answer (
  customer STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), orders BIGINT, spent DECIMAL(38, 2)
) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'json');

INSERT INTO answer
SELECT customer, window_start, window_end, COUNT(*), SUM(price * qty)
FROM TABLE(SESSION(TABLE orders PARTITION BY customer, DESCRIPTOR(ts), INTERVAL '30' SECOND))
GROUP BY customer, window_start, window_end;
