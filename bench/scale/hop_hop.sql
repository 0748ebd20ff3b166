-- Windows of 24 hours, sliding by one minute: each row is in 1,440 of them. 1,000 keys, ${ROWS} rows over 48 hours.
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

CREATE TABLE sink (k BIGINT, num BIGINT, total BIGINT, endtime TIMESTAMP(3)) WITH (${SINK});

INSERT INTO sink
SELECT k, COUNT(*) AS num, SUM(CAST(v AS BIGINT)) AS total, window_end AS endtime
FROM TABLE(HOP(TABLE gen, DESCRIPTOR(`at`), INTERVAL '1' MINUTE, INTERVAL '24' HOUR))
GROUP BY k, window_start, window_end;
