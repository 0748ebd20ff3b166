-- The old form of windows, three kinds in one job.
SET 'table.local-time-zone' = 'UTC';
CREATE TABLE orders (
  id BIGINT, customer STRING, city STRING, product STRING, price DECIMAL(10, 2), qty INT, rate DOUBLE, note STRING,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json');

CREATE TABLE answer (
  kind STRING, who STRING, starts TIMESTAMP(3), ends TIMESTAMP(3), last_ms TIMESTAMP(3), n BIGINT, pieces INT
) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'json');

INSERT INTO answer
SELECT 'tumble', city, TUMBLE_START(ts, INTERVAL '90' SECOND), TUMBLE_END(ts, INTERVAL '90' SECOND),
  CAST(TUMBLE_ROWTIME(ts, INTERVAL '90' SECOND) AS TIMESTAMP(3)), COUNT(*), SUM(qty)
FROM orders GROUP BY city, TUMBLE(ts, INTERVAL '90' SECOND)
UNION ALL
SELECT 'hop', city, HOP_START(ts, INTERVAL '1' MINUTE, INTERVAL '3' MINUTE), HOP_END(ts, INTERVAL '1' MINUTE, INTERVAL '3' MINUTE),
  CAST(HOP_ROWTIME(ts, INTERVAL '1' MINUTE, INTERVAL '3' MINUTE) AS TIMESTAMP(3)), COUNT(*), SUM(qty)
FROM orders GROUP BY city, HOP(ts, INTERVAL '1' MINUTE, INTERVAL '3' MINUTE)
UNION ALL
SELECT 'session', customer, SESSION_START(ts, INTERVAL '20' SECOND), SESSION_END(ts, INTERVAL '20' SECOND),
  CAST(SESSION_ROWTIME(ts, INTERVAL '20' SECOND) AS TIMESTAMP(3)), COUNT(*), SUM(qty)
FROM orders GROUP BY customer, SESSION(ts, INTERVAL '20' SECOND);
