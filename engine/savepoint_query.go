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
	"github.com/tidemark-stream/tidemark/vec"
)

// StateTable is the name of the table that the entries of a state are queried by: 1/groups.
func StateTable(o *checkpoint.Operator, st int) string {
	return fmt.Sprintf("%d/%s", o.Node, o.States[st].Name)
}

// Query runs SQL over the states of a savepoint: each is a table of its entries, named by
// StateTable. A name may also have the operator's label in place of its number. Only states whose
// names are in the text are read.
func (e *Engine) Query(ctx context.Context, s *Savepoint, text string, h Handler) error {
	sess, err := e.NewSession()
	if err != nil {
		return err
	}
	ddl := "SET 'execution.runtime-mode' = 'batch';\n"
	for i := range s.Manifest.Operators {
		o := &s.Manifest.Operators[i]
		for st := range o.States {
			for _, name := range []string{StateTable(o, st), o.Label + "/" + o.States[st].Name} {
				if !strings.Contains(text, "`"+name+"`") {
					continue
				}
				file, err := s.export(ctx, o, st)
				if err != nil {
					return err
				}
				ddl += tableOf(o, st, name, file)
			}
		}
	}
	if err := sess.Script(ctx, "tables of states", ddl, Handler{Warn: h.Warn}); err != nil {
		return err
	}
	if err = sess.Script(ctx, "query", text, h); err != nil && strings.Contains(err.Error(), "unknown table") {
		var known []string
		for i := range s.Manifest.Operators {
			for st := range s.Manifest.Operators[i].States {
				known = append(known, identifier(StateTable(&s.Manifest.Operators[i], st)))
			}
		}
		err = fmt.Errorf("%w\nthe states are %s", err, strings.Join(known, ", "))
	}
	return err
}

// tableOf is the definition of the table of a state whose entries are in a file.
func tableOf(o *checkpoint.Operator, st int, name, file string) string {
	var cols []string
	for _, f := range EntrySchema(o.States[st]).Fields {
		cols = append(cols, "  "+identifier(f.Name)+" "+f.Type.String())
	}
	return fmt.Sprintf("CREATE TABLE %s (\n%s\n) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '%s');\n",
		identifier(name), strings.Join(cols, ",\n"), strings.ReplaceAll(file, "'", "''"))
}

// identifier quotes a name.
func identifier(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// export writes the entries of a state to a file of JSON lines, once, and returns its path.
func (s *Savepoint) export(ctx context.Context, o *checkpoint.Operator, st int) (string, error) {
	path := filepath.Join(s.dir, fmt.Sprintf("%d-%d.jsonl", o.ID, st))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	enc, err := format.Lookup("json").NewEncoder(format.EncoderConfig{Schema: EntrySchema(o.States[st]),
		Options: option.Of(nil, format.Lookup("json").Options)})
	if err != nil {
		return "", err
	}
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	w := bufio.NewWriterSize(file, 1<<18)
	var out format.Encoded
	err = s.Entries(ctx, o, st, func(b *vec.Batch) error {
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
	return path, err
}
