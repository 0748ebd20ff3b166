-- What making the rows of hop_tumble.sql and hop_hop.sql costs: ${ROWS} of them over 48 hours, thrown away.
CREATE TABLE gen (
  n BIGINT,
  v INT,
  k AS MOD(n * 7919, 1000),
  `at` AS TO_TIMESTAMP_LTZ(n * 172800000 / ${ROWS}, 3),
  WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND
) WITH (
  'connector' = 'datagen', 'rows-per-second' = '1000000000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '${LAST}',
  'fields.v.min' = '0', 'fields.v.max' = '999'
);

CREATE TABLE sink (k BIGINT, v INT, `at` TIMESTAMP_LTZ(3)) WITH (${SINK});

INSERT INTO sink SELECT k, v, `at` FROM gen;
