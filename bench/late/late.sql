-- Counts and sums by key of ${ROWS} rows, 100,000 a second of event time, of which one in ${ONE} is late: by 15 s
-- and up to 300 s more, and reaches its window too late. Without late rows ${ONE} is larger than ${ROWS}.
CREATE TABLE gen (
  n BIGINT,
  v BIGINT,
  k AS MOD(n * 7919, 1000),
  ts AS TO_TIMESTAMP_LTZ(400000 + n / 100 - CASE WHEN MOD(n, ${ONE}) = ${ONE} - 1 THEN 15000 + MOD(n * 7919, 300000) ELSE 0 END, 3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH (
  'connector' = 'datagen', 'rows-per-second' = '1000000000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '${LAST}',
  'fields.v.min' = '0', 'fields.v.max' = '999999'
);
CREATE TABLE late_rows (
  k BIGINT, v BIGINT, ts TIMESTAMP_LTZ(3), window_start TIMESTAMP(3) METADATA, window_end TIMESTAMP(3) METADATA, lateness BIGINT METADATA
) WITH ('connector' = 'blackhole');
CREATE TABLE sink (k BIGINT, window_start TIMESTAMP(3), num BIGINT, total BIGINT) WITH ('connector' = 'blackhole');

INSERT INTO sink SELECT /*+ EMIT(${EMIT}'late-sink' = 'late_rows') */ k, window_start, COUNT(*) AS num, SUM(v) AS total
FROM TABLE(${WINDOW}) GROUP BY k, window_start, window_end;
