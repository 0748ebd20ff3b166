-- Functions of strings and dates.
SET 'table.local-time-zone' = 'UTC';
CREATE TABLE orders (
  id BIGINT, customer STRING, city STRING, product STRING, price DECIMAL(10, 2), qty INT, rate DOUBLE, note STRING,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json');

CREATE TABLE answer (
  id BIGINT, u STRING, s STRING, r STRING, l INT, p INT, padded STRING, words STRING, ini STRING, hex STRING, md STRING,
  y BIGINT, mo BIGINT, dow BIGINT, fmt STRING, hour_of TIMESTAMP(3), later TIMESTAMP(3), gap BIGINT, unix BIGINT, parsed TIMESTAMP(3), d DATE
) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'json');

INSERT INTO answer
SELECT
  id, UPPER(city), SUBSTRING(customer, 2, 3), REPLACE(product, 'a', '_'), CHAR_LENGTH(note), POSITION('o' IN city),
  LPAD(CAST(qty AS STRING), 4, '0'), REGEXP_EXTRACT(note, '([a-z]+) (\d+)', 2), INITCAP(product || ' ' || city), HEX(qty), MD5(customer),
  EXTRACT(YEAR FROM ts), EXTRACT(MONTH FROM ts), EXTRACT(DOW FROM ts), DATE_FORMAT(ts, 'yyyy/MM/dd HH:mm:ss.SSS'),
  CAST(FLOOR(ts TO HOUR) AS TIMESTAMP(3)), CAST(ts + INTERVAL '1 02:03' DAY TO MINUTE AS TIMESTAMP(3)),
  CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '2024-03-01 00:00:00', ts) AS BIGINT), UNIX_TIMESTAMP(DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss')),
  TO_TIMESTAMP(DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss')), TO_DATE(DATE_FORMAT(ts, 'yyyy-MM-dd'))
FROM orders
WHERE MOD(id, 10) = 0;
