-- A board of departures by airport and hour, from status reports that correct one another.
--
--   go run ./cmd/tidemark run --http :8090 --stay examples/flights/board.sql
--
-- and open http://127.0.0.1:8090/board/. Each flight is reported up to three times: scheduled, departed or
-- cancelled, arrived. Reports come twice, come again hours later, and move a flight to another hour. A
-- report is an entity upsert: the newest revision of a flight counts, whatever order they come in; where
-- the hour moves, both hours are corrected.
--
-- Rows of the board are revisions: each a full snapshot of its cell, numbered from 1, with why it was made
-- and whether anything can still correct it. They go to files here; for ClickHouse or PostgreSQL replace the
-- options of `board`, as in examples/flights/README.md.

SET 'pipeline.name' = 'flight-board';
SET 'execution.checkpointing.interval' = '1 s';
SET 'execution.checkpointing.dir' = 'examples/flights/state';

CREATE TABLE status (
  flight_id     STRING,
  carrier       STRING,
  origin        STRING,
  dest          STRING,
  revision      INT,
  status        STRING,        -- scheduled, departed, cancelled, arrived
  dep_delay     INT,           -- minutes; NULL until the flight has departed
  attributed_at TIMESTAMP(3),  -- the departure: as scheduled, then as it was
  -- Flights are announced three hours ahead.
  WATERMARK FOR attributed_at AS attributed_at - INTERVAL '3' HOUR,
  PRIMARY KEY (flight_id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'path'      = 'examples/flights/data/status-2013-01.jsonl.gz',
  'format'    = 'json',
  'upsert.version-column' = 'revision',
  'upsert.horizon'        = '7 d'
);

CREATE TABLE board (
  origin       STRING,
  window_start TIMESTAMP(3),
  window_end   TIMESTAMP(3),
  flights      BIGINT COMMENT 'unit: flights',
  departed     BIGINT COMMENT 'unit: flights',
  cancelled    BIGINT COMMENT 'unit: flights',
  delay        DECIMAL(10, 1) COMMENT 'unit: minutes',
  rev          BIGINT  METADATA FROM 'revision',
  generation   STRING  METADATA,
  as_of        TIMESTAMP_LTZ(3) METADATA FROM 'watermark',
  is_final     BOOLEAN METADATA,
  is_deleted   BOOLEAN METADATA,
  emit_reason  STRING  METADATA,
  input_count  BIGINT  METADATA,
  cause        STRING  METADATA,
  PRIMARY KEY (origin, window_start, window_end) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'path'      = 'examples/flights/board',
  'format'    = 'json'
);

-- What comes more than six hours after an hour was complete: the cell then says "needs backfill".
CREATE TABLE late_status (
  flight_id    STRING,
  origin       STRING,
  revision     INT,
  attributed_at TIMESTAMP(3),
  window_start TIMESTAMP(3) METADATA,
  window_end   TIMESTAMP(3) METADATA,
  lateness     BIGINT METADATA,
  row_kind     STRING METADATA
) WITH (
  'connector' = 'filesystem',
  'path'      = 'examples/flights/late',
  'format'    = 'json'
);

INSERT INTO board
SELECT /*+ EMIT('allowed-lateness' = '6 h', 'early-fire' = '1 s', 'late-fire' = '1 s', 'late-sink' = 'late_status') */
  origin,
  window_start,
  window_end,
  COUNT(*),
  COUNT(*) FILTER (WHERE status IN ('departed', 'arrived')),
  COUNT(*) FILTER (WHERE status = 'cancelled'),
  CAST(AVG(CAST(dep_delay AS DECIMAL(10, 1))) AS DECIMAL(10, 1))
FROM TABLE(TUMBLE(TABLE status, DESCRIPTOR(attributed_at), INTERVAL '1' HOUR))
GROUP BY origin, window_start, window_end;
