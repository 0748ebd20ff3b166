-- A growing window, and a tumbling one over its results by window_time.
SET 'table.local-time-zone' = 'UTC';
CREATE TABLE orders (
  id BIGINT, customer STRING, city STRING, product STRING, price DECIMAL(10, 2), qty INT, rate DOUBLE, note STRING,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json');

CREATE TABLE answer (
  window_end TIMESTAMP(3), steps BIGINT, most BIGINT, pieces BIGINT
) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'json');

CREATE VIEW growing AS
SELECT city, window_end AS step, window_time AS wt, COUNT(*) AS n, CAST(SUM(qty) AS BIGINT) AS pieces
FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTE))
GROUP BY window_start, window_end, window_time, city;

INSERT INTO answer
SELECT window_end, COUNT(*), MAX(n), SUM(pieces)
FROM TABLE(TUMBLE(TABLE growing, DESCRIPTOR(wt), INTERVAL '5' MINUTE))
GROUP BY window_start, window_end;
