CREATE TABLE IF NOT EXISTS `shop`.`board` ON CLUSTER `c` (
	`origin` String,
	`window_start` DateTime64(3, 'UTC'),
	`window_end` Nullable(DateTime64(3, 'UTC')),
	`flights` Nullable(Int64),
	`delay` Nullable(Decimal(12, 2)) COMMENT 'unit: minutes',
	`share` Nullable(Float64),
	`note` Nullable(String),
	`revision` Int64,
	`generation` LowCardinality(String),
	`watermark` Nullable(DateTime64(3, 'UTC')),
	`is_final` Bool,
	`is_deleted` Bool,
	`emit_reason` LowCardinality(String),
	`input_count` Nullable(Int64),
	`cause` Nullable(String),
	payload_hash UInt64 MATERIALIZED sipHash64(toString(tuple(`window_end`, `flights`, `delay`, `share`, `note`, `watermark`, `is_final`, `is_deleted`, `emit_reason`, `input_count`, `cause`))),
	inserted_at DateTime64(3, 'UTC') DEFAULT now64(3)
) ENGINE = ReplicatedReplacingMergeTree
PARTITION BY (`generation`, toYYYYMM(`window_start`))
PRIMARY KEY (`origin`, `window_start`)
ORDER BY (`origin`, `window_start`, `generation`, `revision`, payload_hash);
CREATE TABLE IF NOT EXISTS `shop`.`board_progress` ON CLUSTER `c` (
	generation LowCardinality(String), job String, lineage String, checkpoint Int64, at_ms Int64, at DateTime64(3, 'UTC') ALIAS fromUnixTimestamp64Milli(at_ms, 'UTC'),
	watermark Nullable(DateTime64(3, 'UTC')), ended Bool, max_time Nullable(DateTime64(3, 'UTC')),
	splits_passed Int64, splits_done Int64, splits_idle Int64, splits Int64, expected Int64, seen Int64,
	late Int64, rejected Int64, duplicates Int64, stale Int64, conflicts Int64, expired Int64, missed_windows Int64, rows_written Int64, document String
) ENGINE = ReplicatedReplacingMergeTree
ORDER BY (generation, lineage, checkpoint);
CREATE TABLE IF NOT EXISTS `shop`.`board_pointer` ON CLUSTER `c` (
	version Int64, base String, froms Array(Int64), tos Array(Int64), generations Array(String), nonce String, at_ms Int64, document String
) ENGINE = ReplicatedMergeTree
ORDER BY version;
CREATE TABLE IF NOT EXISTS `shop`.`board_record` ON CLUSTER `c` (
	kind LowCardinality(String), name String, at_ms Int64, at DateTime64(3, 'UTC') ALIAS fromUnixTimestamp64Milli(at_ms, 'UTC'), seq UInt64, document String
) ENGINE = ReplicatedReplacingMergeTree
ORDER BY (kind, name, at_ms, seq);
CREATE VIEW IF NOT EXISTS `shop`.`board_latest` ON CLUSTER `c` AS
WITH
	(SELECT argMax(tuple(froms, tos, generations, base), version) FROM `shop`.`board_pointer`) AS tm_pointer,
	arrayPushFront(tm_pointer.3, if(tm_pointer.4 = '', 'live', tm_pointer.4)) AS tm_generations
SELECT `origin`, `window_start`, `window_end`, `flights`, `delay`, `share`, `note`, `revision`, `generation`, `watermark`, `is_final`, `is_deleted`, `emit_reason`, `input_count`, `cause`
FROM (SELECT `origin`, `window_start`, tupleElement(tm_newest, 1) AS `window_end`, tupleElement(tm_newest, 2) AS `flights`, tupleElement(tm_newest, 3) AS `delay`, tupleElement(tm_newest, 4) AS `share`, tupleElement(tm_newest, 5) AS `note`, tupleElement(tm_newest, 6) AS `revision`, tupleElement(tm_newest, 7) AS `generation`, tupleElement(tm_newest, 8) AS `watermark`, tupleElement(tm_newest, 9) AS `is_final`, tupleElement(tm_newest, 10) AS `is_deleted`, tupleElement(tm_newest, 11) AS `emit_reason`, tupleElement(tm_newest, 12) AS `input_count`, tupleElement(tm_newest, 13) AS `cause` FROM (SELECT `origin`, `window_start`, argMax(tuple(`window_end`, `flights`, `delay`, `share`, `note`, `revision`, `generation`, `watermark`, `is_final`, `is_deleted`, `emit_reason`, `input_count`, `cause`), tuple(`revision`, payload_hash)) AS tm_newest FROM `shop`.`board` WHERE `generation` IN arrayPushFront(tm_pointer.3, if(tm_pointer.4 = '', 'live', tm_pointer.4)) AND `generation` = tm_generations[arrayFirstIndex((f, t) -> toUnixTimestamp64Milli(toDateTime64(`window_start`, 3, 'UTC')) >= f AND toUnixTimestamp64Milli(toDateTime64(`window_start`, 3, 'UTC')) < t, tm_pointer.1, tm_pointer.2) + 1] GROUP BY `origin`, `window_start`))
WHERE NOT `is_deleted`;
CREATE VIEW IF NOT EXISTS `shop`.`board_conflicts` ON CLUSTER `c` AS
SELECT `origin`, `window_start`, `generation`, `revision`, uniqExact(payload_hash) AS contents
FROM `shop`.`board`
GROUP BY `origin`, `window_start`, `generation`, `revision`
HAVING contents > 1;
CREATE VIEW IF NOT EXISTS `shop`.`board_totals` ON CLUSTER `c` AS
SELECT `window_start`, count() AS cells, sum(`flights`) AS `sum_flights`, sum(`delay`) AS `sum_delay`, sum(`share`) AS `sum_share`, sum(`input_count`) AS `sum_input_count`
FROM `shop`.`board_latest`
GROUP BY `window_start`;
