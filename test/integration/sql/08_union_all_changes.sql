-- UNION ALL of views and a common table expression, and a count that changes, folded by the reader.
SET 'table.local-time-zone' = 'UTC';
CREATE TABLE orders (
  id BIGINT, customer STRING, city STRING, product STRING, price DECIMAL(10, 2), qty INT, rate DOUBLE, note STRING,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json');

CREATE TABLE answer (
  src STRING, city STRING, n BIGINT, spent DECIMAL(38, 2)
) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'debezium-json');

CREATE VIEW north AS SELECT 'north' AS src, city, price, qty FROM orders WHERE city IN ('Oslo', 'Riga');
CREATE VIEW south AS SELECT 'south' AS src, city, price, qty FROM orders WHERE city IN ('Rome', 'Bari');

INSERT INTO answer
WITH mixed AS (SELECT * FROM north UNION ALL SELECT * FROM south UNION ALL SELECT 'rest', city, price, qty FROM orders WHERE qty > 8)
SELECT src, city, COUNT(*), SUM(price * qty) FROM mixed GROUP BY src, city;
