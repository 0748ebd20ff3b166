CREATE TABLE IF NOT EXISTS "public"."board" (
	"origin" text NOT NULL,
	"window_start" timestamp(3) NOT NULL,
	"window_end" timestamp(3),
	"flights" bigint,
	"delay" numeric(12, 2),
	"share" double precision,
	"note" text,
	"revision" bigint NOT NULL,
	"generation" text NOT NULL,
	"watermark" timestamptz(3),
	"is_final" boolean NOT NULL,
	"is_deleted" boolean NOT NULL,
	"emit_reason" text NOT NULL,
	"input_count" bigint,
	"cause" text,
	inserted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY ("origin", "window_start", "generation", "revision")
);
COMMENT ON COLUMN "public"."board"."delay" IS 'unit: minutes';
CREATE INDEX IF NOT EXISTS "board_windows" ON "public"."board" ("generation", "window_start");
CREATE TABLE IF NOT EXISTS "public"."board_progress" (
	generation text NOT NULL, job text NOT NULL, lineage text NOT NULL, checkpoint bigint NOT NULL, at_ms bigint NOT NULL,
	at timestamptz GENERATED ALWAYS AS (to_timestamp(at_ms / 1000.0)) STORED, watermark timestamp, ended boolean NOT NULL, max_time timestamp,
	splits_passed bigint NOT NULL, splits_done bigint NOT NULL, splits_idle bigint NOT NULL, splits bigint NOT NULL, expected bigint NOT NULL, seen bigint NOT NULL,
	late bigint NOT NULL, rejected bigint NOT NULL, duplicates bigint NOT NULL, stale bigint NOT NULL, conflicts bigint NOT NULL, expired bigint NOT NULL,
	missed_windows bigint NOT NULL, rows_written bigint NOT NULL, document text NOT NULL,
	PRIMARY KEY (generation, lineage, checkpoint)
);
CREATE TABLE IF NOT EXISTS "public"."board_pointer" (
	version bigint PRIMARY KEY, base text NOT NULL, froms bigint[] NOT NULL, tos bigint[] NOT NULL, generations text[] NOT NULL,
	nonce text NOT NULL, at_ms bigint NOT NULL, document text NOT NULL
);
CREATE TABLE IF NOT EXISTS "public"."board_record" (
	kind text NOT NULL, name text NOT NULL, at_ms bigint NOT NULL, at timestamptz GENERATED ALWAYS AS (to_timestamp(at_ms / 1000.0)) STORED,
	seq bigint NOT NULL, document text NOT NULL, PRIMARY KEY (kind, name, at_ms, seq)
);
CREATE TABLE IF NOT EXISTS "public"."board_conflicts" (
	"origin" text, "window_start" timestamp(3), "revision" bigint, "generation" text,
	has jsonb NOT NULL, came jsonb NOT NULL, came_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY ("origin", "window_start", "generation", "revision")
);
CREATE OR REPLACE FUNCTION "public"."board_keep_first"() RETURNS trigger LANGUAGE plpgsql AS $tidemark$
BEGIN
	IF to_jsonb(OLD) - 'inserted_at' IS DISTINCT FROM to_jsonb(NEW) - 'inserted_at' THEN
		INSERT INTO "public"."board_conflicts" ("origin", "window_start", "generation", "revision", has, came) VALUES (NEW."origin", NEW."window_start", NEW."generation", NEW."revision", to_jsonb(OLD), to_jsonb(NEW)) ON CONFLICT DO NOTHING;
	END IF;
	RETURN NULL;
END $tidemark$;
CREATE OR REPLACE TRIGGER tidemark_keep_first BEFORE UPDATE ON "public"."board" FOR EACH ROW EXECUTE FUNCTION "public"."board_keep_first"();
CREATE OR REPLACE VIEW "public"."board_latest" AS
SELECT "origin", "window_start", "window_end", "flights", "delay", "share", "note", "revision", "generation", "watermark", "is_final", "is_deleted", "emit_reason", "input_count", "cause"
FROM (SELECT DISTINCT ON (t."origin", t."window_start") t.*
	FROM "public"."board" AS t, (SELECT base, froms, tos, generations FROM (SELECT version, base, froms, tos, generations FROM "public"."board_pointer" UNION ALL SELECT 0, '', '{}', '{}', '{}') AS versions ORDER BY version DESC LIMIT 1) AS p
	WHERE t."generation" = coalesce((SELECT r.generation FROM unnest(p.froms, p.tos, p.generations) AS r(at, until, generation) WHERE floor(extract(epoch FROM t."window_start") * 1000)::bigint >= r.at AND floor(extract(epoch FROM t."window_start") * 1000)::bigint < r.until), CASE p.base WHEN '' THEN 'live' ELSE p.base END)
	ORDER BY t."origin", t."window_start", t."revision" DESC) AS newest
WHERE NOT "is_deleted";
CREATE OR REPLACE VIEW "public"."board_totals" AS
SELECT "window_start", count(*) AS cells, sum("flights") AS "sum_flights", sum("delay") AS "sum_delay", sum("share") AS "sum_share", sum("input_count") AS "sum_input_count"
FROM "public"."board_latest"
GROUP BY "window_start";
