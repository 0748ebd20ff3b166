-- Grouping sets, rollup and their GROUPING_ID over a tumbling window.
SET 'table.local-time-zone' = 'UTC';
CREATE TABLE orders (
  id BIGINT, customer STRING, city STRING, product STRING, price DECIMAL(10, 2), qty INT, rate DOUBLE, note STRING,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json');

CREATE TABLE answer (
  window_start TIMESTAMP(3), city STRING, product STRING, level BIGINT, orders BIGINT, pieces INT
) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'json');

INSERT INTO answer
SELECT window_start, city, product, CAST(GROUPING_ID(city, product) AS BIGINT), COUNT(*), SUM(qty)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE))
GROUP BY window_start, window_end, GROUPING SETS ((city, product), (city), (product), ());
