package engine

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// StateTable is the name of the table that the entries of a state are queried by: 1/groups.
func StateTable(o *checkpoint.Operator, st int) string {
	return fmt.Sprintf("%d/%s", o.Node, o.States[st].Name)
}

// Query runs SQL over the states of a savepoint: each is a table of its entries, named by
// StateTable, and the windows of an operator are one, named by TimerTable. A name may also have the
// operator's label in place of its number. Only tables whose names are in the text are read.
func (e *Engine) Query(ctx context.Context, s *Savepoint, text string, h Handler) error {
	return e.query(ctx, s, text, nil, h)
}

// query is Query in which the rows of the state of numbered (nil: of none) have the numbers by which
// they are found again.
func (e *Engine) query(ctx context.Context, s *Savepoint, text string, numbered *entryReader, h Handler) error {
	sess, err := e.NewSession()
	if err != nil {
		return err
	}
	ddl := "SET 'execution.runtime-mode' = 'batch';\n"
	var known []string
	for i := range s.Manifest.Operators {
		for _, t := range s.tables(&s.Manifest.Operators[i]) {
			known = append(known, identifier(t.names[0]))
			for _, name := range t.names {
				if !strings.Contains(text, "`"+name+"`") {
					continue
				}
				def, err := t.define(ctx, s, name, numbered)
				if err != nil {
					return err
				}
				ddl += def
			}
		}
	}
	if err := sess.Script(ctx, "tables of states", ddl, Handler{Warn: h.Warn}); err != nil {
		return err
	}
	if err = sess.Script(ctx, "query", text, h); err != nil && strings.Contains(err.Error(), "unknown table") {
		err = fmt.Errorf("%w\nthe states are %s", err, strings.Join(known, ", "))
	}
	return err
}

// stateTable is something that can be queried: a state, or the timers of an operator.
type stateTable struct {
	o     *checkpoint.Operator
	st    int // -1 for timers
	names []string
}

// tables are those of an operator.
func (s *Savepoint) tables(o *checkpoint.Operator) []stateTable {
	var out []stateTable
	for st := range o.States {
		out = append(out, stateTable{o, st, []string{StateTable(o, st), o.Label + "/" + o.States[st].Name}})
	}
	if name := TimerTable(o); name != "" {
		out = append(out, stateTable{o, -1, []string{name, o.Label + "/" + Timers}})
	}
	return out
}

// define writes what the table holds to a file, once, and returns its definition under a name.
func (t *stateTable) define(ctx context.Context, s *Savepoint, name string, numbered *entryReader) (string, error) {
	file := filepath.Join(s.dir, fmt.Sprintf("%d-%d.jsonl", t.o.ID, t.st))
	var schema types.Schema
	var rows func(f func(b *vec.Batch) error) error
	switch {
	case t.st < 0:
		schema = TimerSchema
		rows = func(f func(b *vec.Batch) error) error { return s.timers(ctx, t.o, f) }
	default:
		r := numbered
		if r == nil || r.of.ID != t.o.ID || r.st != t.st {
			var err error
			if r, err = s.reader(t.o, t.st); err != nil {
				return "", err
			}
		} else {
			file += ".numbered"
		}
		schema = r.schema()
		rows = func(f func(b *vec.Batch) error) error { return s.entries(ctx, t.o, t.st, r, f) }
	}
	if err := export(file, schema, rows); err != nil {
		return "", err
	}
	var cols []string
	for _, f := range schema.Fields {
		cols = append(cols, "  "+identifier(f.Name)+" "+f.Type.String())
	}
	return fmt.Sprintf("CREATE TABLE %s (\n%s\n) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '%s');\n",
		identifier(name), strings.Join(cols, ",\n"), strings.ReplaceAll(file, "'", "''")), nil
}

// identifier quotes a name.
func identifier(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// export writes rows to a file of JSON lines, if it is not there.
func export(path string, schema types.Schema, rows func(f func(b *vec.Batch) error) error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	enc, err := format.Lookup("json").NewEncoder(format.EncoderConfig{Schema: schema, Options: option.Of(nil, format.Lookup("json").Options)})
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(file, 1<<18)
	var out format.Encoded
	err = rows(func(b *vec.Batch) error {
		out.Reset()
		if err := enc.Encode(&out, b); err != nil {
			return err
		}
		from := 0
		for _, end := range out.Ends {
			w.Write(out.Data[from:end])
			w.WriteByte('\n')
			from = end
		}
		return nil
	})
	if err == nil {
		err = w.Flush()
	}
	if e := file.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}
