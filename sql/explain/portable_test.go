package explain

import (
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/sql/parse"
)

func TestPortable(t *testing.T) {
	const in = `-- a board
CREATE TABLE board (
  k STRING, n BIGINT, -- counted
  revision BIGINT METADATA, final BOOLEAN METADATA FROM 'is_final',
  PRIMARY KEY (k) NOT ENFORCED, gen STRING METADATA FROM 'generation'
) WITH ('connector' = 'clickhouse', 'dead-letter.path' = 'it''s', 'url' = 'x', 'upsert.horizon' = '1 d');
CREATE TABLE late (k STRING, op STRING METADATA FROM 'operator') WITH ('connector' = 'print');
EXECUTE STATEMENT SET BEGIN
INSERT INTO board SELECT /*+ EMIT('early-fire' = '5 s', 'late-sink' = 'late') */ k, COUNT(*) FROM t GROUP BY k;
INSERT INTO late (k) SELECT /*+ STATE_TTL('t' = '1 d'), EMIT('final-only' = 'true') */ k FROM t;
END;
SELECT /*+ EMIT('early-fire' = '5 s') */ k FROM t;
`
	const want = `-- a board
SET 'tidemark.table.board.dead-letter.path' = 'it''s';
SET 'tidemark.table.board.upsert.horizon' = '1 d';
SET 'tidemark.table.board.result-metadata' = 'revision,is_final,generation';
CREATE TABLE board (
  k STRING, n BIGINT, -- counted
  PRIMARY KEY (k) NOT ENFORCED
) WITH ('connector' = 'clickhouse', 'url' = 'x');
SET 'tidemark.table.late.late-metadata' = 'operator';
CREATE TABLE late (k STRING) WITH ('connector' = 'print');
SET 'tidemark.emit.board.early-fire' = '5 s';
SET 'tidemark.emit.board.late-sink' = 'late';
SET 'tidemark.emit.late.final-only' = 'true';
EXECUTE STATEMENT SET BEGIN
INSERT INTO board SELECT k, COUNT(*) FROM t GROUP BY k;
INSERT INTO late (k) SELECT /*+ STATE_TTL('t' = '1 d') */ k FROM t;
END;
SELECT /*+ EMIT('early-fire' = '5 s') */ k FROM t;
`
	got, notes, err := Portable(in)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	var said []string
	for _, n := range notes {
		said = append(said, n.What+": "+n.Effect)
	}
	text := strings.Join(said, "\n")
	for _, w := range []string{"`final` of table `board`: it is called is_final now", "`gen`", "`op`", "no portable spelling outside of an INSERT"} {
		if !strings.Contains(text, w) {
			t.Errorf("no note %q in:\n%s", w, text)
		}
	}
	if len(notes) != 4 {
		t.Errorf("%d notes:\n%s", len(notes), text)
	}
	if again, more, err := Portable(got); err != nil || again != got || len(more) != 1 {
		t.Errorf("the second time %v, %d notes:\n%s", err, len(more), again)
	}
}

// TestPortable_Stays wants columns that queries read and hints that disagree left as they are.
func TestPortable_Stays(t *testing.T) {
	const in = `CREATE TABLE board (k STRING, revision BIGINT METADATA) WITH ('connector' = 'print');
SELECT revision FROM board;
INSERT INTO board SELECT /*+ EMIT('early-fire' = '5 s') */ k FROM (SELECT /*+ EMIT('early-fire' = '6 s') */ k FROM t);
`
	got, notes, err := Portable(in)
	if err != nil || got != in || len(notes) != 2 {
		t.Errorf("%v, %d notes:\n%s", err, len(notes), got)
	}
}

func FuzzPortable(f *testing.F) {
	f.Add("CREATE TABLE b (k INT, revision BIGINT METADATA) WITH ('connector' = 'x', 'upsert.horizon' = '1'); INSERT INTO b SELECT /*+ EMIT('a'='b') */ 1;")
	f.Fuzz(func(t *testing.T, text string) {
		out, _, err := Portable(text)
		if err != nil {
			return
		}
		if _, err := parse.Script(out); err != nil {
			t.Errorf("%q became %q: %v", text, out, err)
		}
	})
}
