-- Facts that never change, and corrections that are facts of their own.
--
--   go run ./cmd/tidemark run examples/adjustments/revenue.sql
--
-- A sale is written once. When it was wrong, an adjustment is written: what has to be added to the amount,
-- for the time of the sale that it corrects. So nothing has to remember sales, sums are simply right, and
-- who asks for the correction finds it as a row. (Where rows are instead the newest state of something, see
-- 'upsert.version-column' in docs/results.md.)

CREATE TABLE facts (
  fact_id   STRING,
  kind      STRING,          -- sale or adjustment
  shop      STRING,
  amount    DECIMAL(12, 2) COMMENT 'unit: EUR',
  corrects  STRING,          -- of an adjustment: the fact_id of the sale
  sold_at   TIMESTAMP(3),    -- of an adjustment: when the sale was
  WATERMARK FOR sold_at AS sold_at - INTERVAL '1' MINUTE
) WITH (
  'connector' = 'filesystem',
  'path'      = 'examples/adjustments/facts.jsonl',
  'format'    = 'json'
);

CREATE TABLE revenue (
  shop         STRING,
  window_start TIMESTAMP(3),
  window_end   TIMESTAMP(3),
  amount       DECIMAL(18, 2) COMMENT 'unit: EUR',
  sales        BIGINT,
  adjustments  BIGINT,
  rev          BIGINT METADATA FROM 'revision',
  emit_reason  STRING METADATA,
  is_final     BOOLEAN METADATA,
  PRIMARY KEY (shop, window_start, window_end) NOT ENFORCED
) WITH ('connector' = 'print');

-- Adjustments come up to a day after the sale.
INSERT INTO revenue
SELECT /*+ EMIT('allowed-lateness' = '1 d') */
  shop, window_start, window_end, SUM(amount), COUNT(*) FILTER (WHERE kind = 'sale'), COUNT(*) FILTER (WHERE kind = 'adjustment')
FROM TABLE(TUMBLE(TABLE facts, DESCRIPTOR(sold_at), INTERVAL '1' HOUR))
GROUP BY shop, window_start, window_end;
