-- Two streams of ${ROWS} rows each, a prime; every key comes once a side, in orders of their own: most rows have to be looked for
-- among all that came before.
CREATE TABLE l (n BIGINT, v BIGINT, k AS MOD(n * 7919, ${ROWS})) WITH (
  'connector' = 'datagen', 'rows-per-second' = '1000000000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '${LAST}',
  'fields.v.min' = '0', 'fields.v.max' = '999');

CREATE TABLE r (n BIGINT, v BIGINT, k AS MOD(n * 104729, ${ROWS})) WITH (
  'connector' = 'datagen', 'rows-per-second' = '1000000000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '${LAST}',
  'fields.v.min' = '0', 'fields.v.max' = '999');

CREATE TABLE sink (k BIGINT, a BIGINT, b BIGINT) WITH (${SINK});

INSERT INTO sink SELECT l.k, l.v, r.v FROM l JOIN r ON l.k = r.k;
