-- COUNT and SUM of ${KEYS} BIGINT keys, each of which comes twice in ${ROWS} rows, in scattered order: the keys grow
-- until the first half of the rows is over. 7,919 is prime, so that MOD gives every key once in ${KEYS} rows.
CREATE TABLE gen (
  n BIGINT,
  v BIGINT,
  k AS MOD(n * 7919, ${KEYS})
) WITH (
  'connector' = 'datagen', 'rows-per-second' = '1000000000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '${LAST}',
  'fields.v.min' = '0', 'fields.v.max' = '999'
);

CREATE TABLE sink (k BIGINT, num BIGINT, total BIGINT) WITH (${SINK});

INSERT INTO sink SELECT k, COUNT(*) AS num, SUM(v) AS total FROM gen GROUP BY k;
