package clickhouse

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/vec"
)

// oneRow builds a block of one row: what is told of a table goes in as a block like its rows, since the text of
// a statement is bounded by the server (max_query_size).
type oneRow struct {
	names []string
	cols  []byte
}

func (b *oneRow) head(name, typ string) {
	b.names = append(b.names, quote(name))
	b.cols = appendString(appendString(b.cols, name), typ)
}

func (b *oneRow) int(name string, v int64) {
	b.head(name, "Int64")
	b.cols = le.AppendUint64(b.cols, uint64(v))
}

func (b *oneRow) uint(name string, v uint64) {
	b.head(name, "UInt64")
	b.cols = le.AppendUint64(b.cols, v)
}

func (b *oneRow) text(name, v string) {
	b.head(name, "String")
	b.cols = appendString(b.cols, v)
}

func (b *oneRow) bool(name string, v bool) {
	b.head(name, "Bool")
	if v {
		b.cols = append(b.cols, 1)
	} else {
		b.cols = append(b.cols, 0)
	}
}

// time adds ms since 1970 as a DateTime64(3), NULL where there is none: as near as what the type holds.
func (b *oneRow) time(name string, ms int64) {
	b.head(name, "Nullable(DateTime64(3, 'UTC'))")
	if ms == vec.MinTime || ms == vec.MaxTime {
		b.cols = le.AppendUint64(append(b.cols, 1), 0)
		return
	}
	const least, most = -2208988800000, 10413791999000
	b.cols = le.AppendUint64(append(b.cols, 0), uint64(min(max(ms, least), most)))
}

func (b *oneRow) ints(name string, vs []int64) {
	b.head(name, "Array(Int64)")
	b.cols = le.AppendUint64(b.cols, uint64(len(vs)))
	for _, v := range vs {
		b.cols = le.AppendUint64(b.cols, uint64(v))
	}
}

func (b *oneRow) texts(name string, vs []string) {
	b.head(name, "Array(String)")
	b.cols = le.AppendUint64(b.cols, uint64(len(vs)))
	for _, v := range vs {
		b.cols = appendString(b.cols, v)
	}
}

func (b *oneRow) block() []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(b.names))), 1), b.cols...)
}

// into is the statement that inserts it into a table.
func (b *oneRow) into(table string) string {
	return "INSERT INTO " + table + " (" + strings.Join(b.names, ", ") + ")"
}

// inserting are the settings of inserts that the server knows, but for those given.
func (c *config) inserting(known map[string]bool) []setting {
	var out []setting
	for _, w := range wanted {
		if _, given := c.settings[w.name]; !given && known[w.name] {
			out = append(out, w)
		}
	}
	return out
}

// put inserts a row into a table; where token is not "", once.
func (s *store) put(ctx context.Context, table string, b *oneRow, token string) error {
	known, err := s.known(ctx)
	if err != nil {
		return err
	}
	settings := s.c.inserting(known)
	if token != "" {
		settings = append(settings, setting{"insert_deduplication_token", token})
	}
	return s.with(ctx, func(se *session) error { return se.insert(ctx, b.into(table), settings, b.block()) })
}

// progressRow is the progress of a table as a row; it may be inserted again.
func progressRow(p *connector.Progress, document []byte) *oneRow {
	b := &oneRow{}
	b.text("generation", p.Generation)
	b.text("job", p.Job)
	b.text("lineage", p.Lineage)
	b.int("checkpoint", p.Checkpoint)
	b.int("at_ms", p.At)
	b.time("watermark", p.Watermark)
	b.bool("ended", p.Watermark == vec.MaxTime)
	b.time("max_time", p.MaxTime)
	for _, c := range []struct {
		name string
		v    int64
	}{{"splits_passed", int64(p.SplitsPassed)}, {"splits_done", int64(p.SplitsDone)}, {"splits_idle", int64(p.SplitsIdle)}, {"splits", int64(p.Splits)},
		{"expected", p.Expected}, {"seen", p.Seen}, {"late", p.Late}, {"rejected", p.Rejected}, {"duplicates", p.Duplicates}, {"stale", p.Stale},
		{"conflicts", p.Conflicts}, {"expired", p.Expired}, {"missed_windows", p.MissedCount()}, {"rows_written", p.Rows}} {
		b.int(c.name, c.v)
	}
	b.text("document", string(document))
	return b
}
