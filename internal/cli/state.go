package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/internal/show"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
	"github.com/tidemark-stream/tidemark/vec/arrowvec/parquet"
)

func stateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "state",
		Short: "Look into checkpoints and savepoints",
		Long: `Look into checkpoints and savepoints. PLACE is a savepoint's folder, a checkpoint
(.../checkpoints/0000000041), or a job's folder, whose newest checkpoint is taken.`,
	}
	c.AddCommand(stateListCommand(), stateShowCommand(), stateQueryCommand(), stateSetCommand())
	return c
}

func moment(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// outputParquet is one more way to print the rows of a state: as a file for other tools.
const outputParquet = "parquet"

const (
	listOutputs  = "how rows are printed: table, json or csv"
	stateOutputs = "how rows are printed: table, json, csv, or parquet, which is written to standard output as one file"
)

func stateListCommand() *cobra.Command {
	var s settings
	var output string
	c := &cobra.Command{
		Use:   "ls PLACE",
		Short: "List the savepoints and checkpoints of a folder, or what is in one",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o, err := s.engineOptions()
			if err != nil {
				return err
			}
			e := engine.New(o)
			list, damage := e.Savepoints(c.Context(), args[0])
			if damage == nil && (len(list) == 0 || len(list) == 1 && engine.IsAt(list[0], args[0])) {
				sp, err := e.OpenSavepoint(c.Context(), args[0])
				if err != nil {
					return err
				}
				defer sp.Close()
				return describe(&view{output: output}, sp)
			}
			if err := listing(&view{output: output}, list, args[0]); err != nil {
				return err
			}
			return damage
		},
	}
	s.flags(c)
	c.Flags().StringVarP(&output, "output", "o", outputTable, listOutputs)
	return c
}

// columnsOf returns a schema of columns of text, or of whole numbers where the name begins with #.
func columnsOf(names ...string) types.Schema {
	var out types.Schema
	for _, n := range names {
		t := types.StringType
		if strings.HasPrefix(n, "#") {
			t, n = types.BigIntType, n[1:]
		}
		out.Fields = append(out.Fields, types.Field{Name: n, Type: t})
	}
	return out
}

// print prints rows as the view's output says.
func (v *view) print(s types.Schema, rows [][]types.Value) error {
	if !slices.Contains([]string{outputTable, outputJSON, outputCSV}, v.output) {
		return fmt.Errorf("--output cannot be '%s'; it is table, json or csv", v.output)
	}
	if v.stdout == nil {
		v.stdout = &lines{w: os.Stdout}
	}
	return v.table(nil, s, rows)
}

// listing prints savepoints and checkpoints, with their places below root.
func listing(v *view, list []*checkpoint.Snapshot, root string) error {
	s := columnsOf("kind", "#id", "job", "of", "size", "#operators with state", "place")
	if v.output != outputTable {
		s = columnsOf("kind", "#id", "job", "of", "#size", "#operators with state", "place")
	}
	var rows [][]types.Value
	for _, x := range list {
		m := x.Manifest
		kind := "checkpoint"
		switch {
		case m.Savepoint:
			kind = "savepoint"
		case m.Finished:
			kind = "end"
		}
		states := int64(0)
		for _, o := range m.Operators {
			if len(o.States) > 0 && !o.Ended {
				states++
			}
		}
		rows = append(rows, []types.Value{kind, m.ID, m.Job, moment(m.Started), v.size(engine.SizeOf(m)), states, below(root, place(x.Location))})
	}
	return v.print(s, rows)
}

// place is where a savepoint is, as the commands take it.
func place(location string) string { return strings.TrimSuffix(location, "/manifest") }

// below is a place as seen from root.
func below(root, at string) string {
	full := root
	if !strings.Contains(root, "://") {
		if abs, err := filepath.Abs(root); err == nil {
			full = abs
		}
	}
	if rest, ok := strings.CutPrefix(at, strings.TrimRight(full, "/")+"/"); ok {
		return strings.TrimRight(root, "/") + "/" + rest
	}
	return at
}

// size is a number of bytes, for people or for programs.
func (v *view) size(n int64) types.Value {
	if v.output == outputTable {
		return show.Bytes(n)
	}
	return n
}

// describe prints what is in a savepoint.
func describe(v *view, sp *engine.Savepoint) error {
	m := sp.Manifest
	people := v.output == outputTable
	if people {
		fmt.Printf("%s of job %s, %s, %s\n", title(m), m.Job, moment(m.Started), place(sp.Location))
		fmt.Printf("%s in %s; parallelism %d, %d key groups; lineage %s; written by %s\n", show.Bytes(sp.Size()),
			show.Plural(int64(len(m.Files)+len(m.Segments)), "file", "files"), m.Parallelism, m.MaxParallelism, m.Lineage, m.Program)
	}
	bytes := "bytes"
	if !people {
		bytes = "#bytes"
	}
	s := columnsOf("#operator", "label", "state", "#entries", bytes, "query as")
	var rows [][]types.Value
	for i := range m.Operators {
		of, err := v.operator(sp, &m.Operators[i])
		if err != nil {
			return err
		}
		rows = append(rows, of...)
	}
	if err := v.section("Operators with state", s, rows, people); err != nil {
		return err
	}
	flying, err := sp.InFlight()
	if err != nil {
		return err
	}
	rows = nil
	for _, f := range flying {
		rows = append(rows, []types.Value{int64(f.From), int64(f.To), f.Rows, v.size(f.Bytes)})
	}
	if err := v.section("Rows on their way between operators", columnsOf("#from", "#to", "#rows", bytes), rows, people); err != nil {
		return err
	}
	rows = nil
	for _, src := range m.Sources {
		for _, x := range src.Splits {
			status := "open"
			switch {
			case x.Ended:
				status = "ended"
			case x.Idle:
				status = "idle"
			}
			var wm types.Value
			if x.Watermark != vec.MinTime && !x.Ended {
				wm = show.Time(x.Watermark)
			}
			var at types.Value
			if x.Set {
				at = x.Offset
			}
			rows = append(rows, []types.Value{src.Table, x.ID, at, wm, status})
		}
	}
	if err := v.section("Sources", columnsOf("table", "split", "#position", "watermark", "status"), rows, people); err != nil {
		return err
	}
	rows = nil
	for _, k := range m.Sinks {
		for _, p := range k.Pending {
			n := int64(0)
			for _, c := range p.Committables {
				n += int64(len(c))
			}
			rows = append(rows, []types.Value{k.Name, p.Checkpoint, int64(len(p.Committables)), n})
		}
	}
	return v.section("Output prepared, and perhaps not committed yet", columnsOf("sink", "#checkpoint", "#parts", "#bytes"), rows, people)
}

// operator describes an operator, a row a state.
func (v *view) operator(sp *engine.Savepoint, o *checkpoint.Operator) (rows [][]types.Value, err error) {
	node := int64(o.Node)
	if o.Ended {
		return [][]types.Value{{node, o.Label, "its input has ended", nil, nil, nil}}, nil
	}
	for st := range o.States {
		n, bytes, err := sp.Measure(o, st)
		if err != nil {
			return nil, err
		}
		rows = append(rows, []types.Value{node, o.Label, o.States[st].Name, n, v.size(bytes), "`" + engine.StateTable(o, st) + "`"})
	}
	if table := engine.TimerTable(o); table != "" {
		name := engine.Timers
		if wm, ok := engine.Watermark(o); ok && wm != vec.MinTime && wm != vec.MaxTime {
			name += " at " + show.Time(wm)
		}
		rows = append(rows, []types.Value{node, o.Label, name, nil, nil, "`" + table + "`"})
	}
	heads := int64(0)
	for _, h := range o.Heads {
		heads += int64(len(h))
	}
	if heads > 0 && len(o.States) == 0 {
		rows = append(rows, []types.Value{node, o.Label, "of subtasks only", nil, v.size(heads), nil})
	}
	return rows, nil
}

func (v *view) section(title string, s types.Schema, rows [][]types.Value, people bool) error {
	if len(rows) == 0 {
		return nil
	}
	if people {
		fmt.Printf("\n%s\n", title)
	}
	return v.print(s, rows)
}

func stateShowCommand() *cobra.Command {
	var s settings
	var output string
	var limit int
	c := &cobra.Command{
		Use:   "show PLACE OPERATOR [STATE]",
		Short: "Print the entries of an operator's state",
		Long: `Print the entries of an operator's state as rows: the columns of the key, then those of the value.
OPERATOR is a number that ls prints, or a part of a label; STATE a name that ls prints, by default
the first; of operators with windows also timers: the windows and when they fire. Accumulators of
aggregates are columns such as row_count, sum_price and max_price; bytes are hexadecimal text.`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(c *cobra.Command, args []string) error {
			return s.look(c.Context(), args[0], output, func(sp *engine.Savepoint) (string, error) {
				o, err := sp.Operator(args[1])
				if err != nil {
					return "", err
				}
				table := engine.TimerTable(o)
				if name := strings.Join(args[2:], ""); table == "" || name != engine.Timers {
					st, err := engine.State(o, name)
					if err != nil {
						return "", err
					}
					table = engine.StateTable(o, st)
				}
				text := "SELECT * FROM `" + table + "`"
				if limit > 0 {
					text += fmt.Sprintf(" LIMIT %d", limit)
				}
				return text, nil
			})
		},
	}
	s.flags(c)
	c.Flags().StringVarP(&output, "output", "o", outputTable, stateOutputs)
	c.Flags().IntVarP(&limit, "limit", "n", 0, "print so many `ENTRIES`; 0 prints all")
	return c
}

func stateQueryCommand() *cobra.Command {
	var s settings
	var output string
	c := &cobra.Command{
		Use:   "query PLACE 'SELECT ... FROM `1/groups`'",
		Short: "Run SQL over the states of a savepoint",
		Long: "Run SQL over the states of a savepoint. Each is a table of its entries, called `OPERATOR/STATE` (in\n" +
			"backticks) with the operator's number or label; ls prints these names.",
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return s.look(c.Context(), args[0], output, func(*engine.Savepoint) (string, error) { return args[1], nil })
		},
	}
	s.flags(c)
	c.Flags().StringVarP(&output, "output", "o", outputTable, stateOutputs)
	return c
}

// look runs SQL over the savepoint at a place.
func (s *settings) look(ctx context.Context, place, output string, text func(*engine.Savepoint) (string, error)) error {
	o, err := s.engineOptions()
	if err != nil {
		return err
	}
	v := &view{output: output, quiet: true}
	if output == outputParquet {
		v.output = outputTable
	}
	if err := v.open(); err != nil {
		return err
	}
	if output == outputParquet && v.screen != nil {
		return fmt.Errorf("--output parquet writes a file to standard output, which is a terminal: redirect it, as in > state.parquet")
	}
	o.Stdout, o.Stderr = v.stdout, v.stderr
	e := engine.New(o)
	sp, err := e.OpenSavepoint(ctx, place)
	if err != nil {
		return err
	}
	defer sp.Close()
	query, err := text(sp)
	if err != nil {
		return err
	}
	if output == outputParquet {
		f := &parquetFile{out: v.stdout}
		return f.close(e.Query(ctx, sp, query, engine.Handler{JobStarted: f.started, Rows: f.rows, Warn: v.warn}))
	}
	return e.Query(ctx, sp, query, engine.Handler{Table: v.table, Message: v.message, JobStarted: v.started, Rows: v.rows,
		JobEnded: v.ended, Warn: v.warn})
}

// parquetFile takes the rows of one SELECT.
type parquetFile struct {
	out io.Writer
	w   *parquet.Writer
	err error
}

func (f *parquetFile) started(j *engine.Run) {
	switch {
	case j.Select == nil:
	case f.w != nil:
		f.err = fmt.Errorf("--output parquet writes one file, so the text may have one SELECT")
	default:
		f.w, f.err = parquet.New(f.out, j.Select.Schema)
	}
}

func (f *parquetFile) rows(_ *engine.Run, b *vec.Batch) error {
	if f.err != nil {
		return f.err
	}
	return f.w.Write(b)
}

// close ends the file of a query that ended with err.
func (f *parquetFile) close(err error) error {
	switch {
	case f.err != nil:
		return f.err
	case err != nil:
		return err
	case f.w == nil:
		return fmt.Errorf("--output parquet needs a SELECT")
	}
	return f.w.Close()
}

// editing is what the flags of state set say.
type editing struct {
	settings
	sets             []string
	where, out, from string
	remove, add      bool
}

// edit checks the flags.
func (s *editing) edit() (engine.Edit, error) {
	set, err := pairs("set", s.sets)
	x := engine.Edit{Set: set, Delete: s.remove, Where: s.where, Add: s.add || s.from != "", From: s.from}
	switch {
	case err != nil:
	case s.out == "":
		err = fmt.Errorf("say with --out where the new savepoint is to be")
	case x.Add && x.Delete:
		err = fmt.Errorf("entries are either added or deleted")
	case x.Add && s.where != "":
		err = fmt.Errorf("--where chooses among entries that are there; those that are added are given by --set and --from")
	case x.Add:
	case x.Delete == (len(set) > 0):
		err = fmt.Errorf("say what to do with the entries: --set COLUMN=EXPRESSION, --delete, or --add")
	case s.where == "":
		err = fmt.Errorf("say with --where which entries are meant; --where TRUE means all")
	}
	return x, err
}

func stateSetCommand() *cobra.Command {
	var s editing
	c := &cobra.Command{
		Use:   "set PLACE OPERATOR [STATE] --set COLUMN=EXPRESSION --where CONDITION --out NEW_PLACE",
		Short: "Change, add or delete entries of a state and write a new savepoint",
		Long: `Change values of a state, add or delete entries, and write the result as a new savepoint, from which
run --from starts. The old one stays as it is. Expressions and the condition are SQL over the
columns that show prints; bytes are hexadecimal text. The key of an entry stays what it is: delete
the entry and add another one. What --add is not told begins as if no row had come.`,
		Example: `  tidemark state set PLACE 1 --set 'row_count = row_count + 1' --where 'item = 3' --out fixed
  tidemark state set PLACE 1 --delete --where 'item > 3' --out fixed
  tidemark state set PLACE 1 --add --set item=7 --set row_count=2 --set max_price=99 --out fixed
  tidemark state set PLACE 1 --from 'SELECT item + 100 AS item, row_count FROM ` + "`1/groups`" + `' --out fixed`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(c *cobra.Command, args []string) error { return s.write(c.Context(), args) },
	}
	c.Flags().StringArrayVar(&s.set, "config", nil, "a setting, such as how an object store is reached (`key=value`)")
	c.Flags().StringArrayVar(&s.sets, "set", nil, "the new value of a column: `COLUMN=EXPRESSION`")
	c.Flags().BoolVar(&s.remove, "delete", false, "delete the entries")
	c.Flags().BoolVar(&s.add, "add", false, "add an entry, whose columns --set gives")
	c.Flags().StringVar(&s.from, "from", "", "add an entry for each row of a `QUERY`, which has columns of these names; --set is over its columns")
	c.Flags().StringVar(&s.where, "where", "", "which entries: a SQL `CONDITION`")
	c.Flags().StringVar(&s.out, "out", "", "the `PLACE` of the new savepoint")
	return c
}

// write makes the changes.
func (s *editing) write(ctx context.Context, args []string) error {
	o, err := s.engineOptions()
	if err != nil {
		return err
	}
	x, err := s.edit()
	if err != nil {
		return err
	}
	e := engine.New(o)
	sp, err := e.OpenSavepoint(ctx, args[0])
	if err != nil {
		return err
	}
	defer sp.Close()
	if x.Operator, err = sp.Operator(args[1]); err != nil {
		return err
	}
	if x.State, err = engine.State(x.Operator, strings.Join(args[2:], "")); err != nil {
		return err
	}
	n, at, err := e.Write(ctx, sp, x, s.out)
	if err != nil {
		return err
	}
	what := "changed"
	switch {
	case x.Add:
		what = "added"
	case x.Delete:
		what = "deleted"
	}
	fmt.Printf("%s %s; the new savepoint is %s\n", show.Plural(int64(n), "entry", "entries"), what, at)
	return nil
}
