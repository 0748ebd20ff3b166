-- Filters, CASE, casts, arithmetic of decimals, NULLs.
SET 'table.local-time-zone' = 'UTC';
CREATE TABLE orders (
  id BIGINT, customer STRING, city STRING, product STRING, price DECIMAL(10, 2), qty INT, rate DOUBLE, note STRING,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json');

CREATE TABLE answer (
  id BIGINT, total DECIMAL(22, 2), kind STRING, half DOUBLE, qty_text STRING, price_int INT, cents BIGINT, day_of DATE, tiny TINYINT, flag BOOLEAN, note STRING
) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'json');

INSERT INTO answer
SELECT
  id,
  CAST(price * qty AS DECIMAL(22, 2)),
  CASE WHEN price >= 80 THEN 'dear' WHEN price >= 30 THEN 'fair' ELSE 'cheap' END,
  rate / 2,
  CAST(qty AS STRING) || ' x ' || CAST(price AS STRING),
  CAST(price AS INT),
  CAST(price * 100 AS BIGINT),
  CAST(ts AS DATE),
  TRY_CAST(note AS TINYINT),
  note IS NULL OR note LIKE '%1_%',
  COALESCE(note, 'none')
FROM orders
WHERE (qty BETWEEN 2 AND 7 AND city IN ('Oslo', 'Rome', 'Bern')) OR price > 95.5 OR note IS NULL;
