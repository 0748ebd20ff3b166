-- COUNT and SUM a day of ${KEYS} BIGINT keys, each of which comes twice within the day, in scattered order: 7,919 is prime,
-- so that MOD gives every key once in ${KEYS} rows. One window, which fires when all rows are there.
CREATE TABLE gen (
  n BIGINT,
  v BIGINT,
  k AS MOD(n * 7919, ${KEYS}),
  ts AS TO_TIMESTAMP_LTZ(n * 86399999 / ${ROWS}, 3),
  WATERMARK FOR ts AS ts
) WITH (
  'connector' = 'datagen', 'rows-per-second' = '1000000000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '${LAST}',
  'fields.v.min' = '0', 'fields.v.max' = '999'
);

CREATE TABLE sink (k BIGINT, num BIGINT, total BIGINT) WITH (${SINK});

INSERT INTO sink SELECT k, COUNT(*) AS num, SUM(v) AS total
FROM TABLE(TUMBLE(TABLE gen, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY k, window_start, window_end;
