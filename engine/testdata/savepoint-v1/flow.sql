SET 'execution.checkpointing.interval' = '1 h';
CREATE TABLE src (k INT, price DECIMAL(10, 2), name STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '5 ms');
CREATE TABLE sums (k INT, n BIGINT, total DECIMAL(38, 2), kinds BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE hops (s TIMESTAMP(3), k INT, n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE sessions (s TIMESTAMP(3), k INT, n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE named (a STRING, b STRING) WITH ('connector' = 'blackhole');
EXECUTE STATEMENT SET BEGIN
INSERT INTO sums SELECT k, COUNT(*), SUM(price), COUNT(DISTINCT name) FROM src GROUP BY k;
INSERT INTO hops SELECT window_start, k, COUNT(*) FROM TABLE(HOP(TABLE src, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
INSERT INTO sessions SELECT SESSION_START(ts, INTERVAL '7' SECOND), k, COUNT(*) FROM src GROUP BY k, SESSION(ts, INTERVAL '7' SECOND);
INSERT INTO named SELECT a.name, b.name FROM src AS a LEFT JOIN src AS b ON a.k = b.k;
END;
