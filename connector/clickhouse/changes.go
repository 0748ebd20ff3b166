package clickhouse

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// How rows that change others are written, 'sink.changelog'.
const (
	appending  = "append"     // there are none
	collapsing = "collapsing" // with a column that is 1 or -1, into a CollapsingMergeTree
	replacing  = "replacing"  // the last row of a key counts, in a ReplacingMergeTree
)

// changelog is what rows a table takes.
func changelog(t *connector.Table, o option.Values) types.ChangelogMode {
	switch o.Enum("sink.changelog") {
	case collapsing:
		return types.Retract
	case replacing:
		return types.Upsert
	}
	return types.InsertOnly
}

// checkChanges refuses what cannot be right, at planning.
func checkChanges(t *connector.Table, o option.Values) error {
	way := o.Enum("sink.changelog")
	if way == replacing && len(t.PrimaryKey) == 0 {
		return &option.Error{Key: "sink.changelog", Msg: "'replacing' needs to know which rows replace each other",
			Hint: "declare PRIMARY KEY (...) NOT ENFORCED: the columns of ORDER BY of the table in the database"}
	}
	if way == appending && len(t.PrimaryKey) > 0 && t.Results == nil {
		return &option.Error{Key: "sink.changelog", Msg: "the table has a PRIMARY KEY here, and rows are only appended",
			Hint: "SET 'sink.changelog' = 'replacing' for a ReplacingMergeTree, or leave the key out"}
	}
	return nil
}

// engineArgs are the parameters of a MergeTree engine that name columns.
func (t *table) engineArgs() []string {
	name, rest, ok := strings.Cut(t.keptFull, "(")
	if !ok || !strings.HasSuffix(name, "MergeTree") {
		return nil
	}
	p := typeParser{s: rest}
	var out []string
	for {
		p.space()
		if p.at < len(p.s) && p.s[p.at] == '\'' { // path and replica of a replicated table
			if _, ok := p.quoted('\''); !ok {
				return out
			}
		} else if w := p.word(); w != "" {
			out = append(out, w)
		}
		if !p.take(',') {
			return out
		}
	}
}

// base is the engine without what says where its parts lie.
func (t *table) base() string {
	for _, p := range []string{"Replicated", "Shared"} {
		if rest, ok := strings.CutPrefix(t.kept, p); ok {
			return rest
		}
	}
	return t.kept
}

// changes sees to it that the table shows changes as 'sink.changelog' says, and adds the columns that
// the sink fills.
func (t *table) changes(cfg *connector.SinkConfig, e *encoder, written map[string]bool) (errs []string) {
	way := cfg.Options.Enum("sink.changelog")
	args := t.engineArgs()
	add := func(name string, kind filling, accepts ...string) {
		c := t.column(name)
		switch {
		case c == nil:
			errs = append(errs, fmt.Sprintf("column '%s' of engine %s does not exist", name, t.keptFull))
		case written[name]:
			errs = append(errs, fmt.Sprintf("the sink fills column '%s' itself; leave it out of the table's definition", name))
		case !slices.Contains(accepts, c.typ):
			errs = append(errs, fmt.Sprintf("column '%s', which the sink fills, is %s in the database; make it %s", name, c.typ, accepts[0]))
		default:
			w, _ := parseType(c.typ)
			e.cols, e.at, e.key, e.heads = append(e.cols, nil), append(e.at, -1), append(e.key, false), append(e.heads, head(name, w))
			e.fill = append(e.fill, filled{kind: kind, size: w.size})
		}
	}
	switch {
	case way == collapsing && t.base() != "CollapsingMergeTree":
		errs = append(errs, fmt.Sprintf("'sink.changelog' = 'collapsing' needs a CollapsingMergeTree(sign), and this is a %s", t.kept))
	case way == collapsing && len(args) != 1:
		errs = append(errs, "the sign column cannot be told from engine "+t.keptFull)
	case way == collapsing:
		add(args[0], fillSign, "Int8")
	case way == replacing && t.base() != "ReplacingMergeTree":
		errs = append(errs, fmt.Sprintf("'sink.changelog' = 'replacing' needs a ReplacingMergeTree, and this is a %s", t.kept))
	case way == replacing:
		e.upsert = true
		key, sorting := slices.Sorted(slices.Values(cfg.Table.PrimaryKey)), slices.Sorted(slices.Values(t.sorting))
		if !slices.Equal(key, sorting) {
			errs = append(errs, fmt.Sprintf("the PRIMARY KEY here is (%s), and the table replaces rows that are equal in ORDER BY (%s); make them the same columns",
				strings.Join(key, ", "), strings.Join(t.sorting, ", ")))
		}
		if len(args) > 0 && !written[args[0]] {
			add(args[0], fillVersion, "UInt64", "Int64", "UInt128", "Int128", "UInt256", "Int256")
		}
		switch {
		case len(args) > 1:
			add(args[1], fillDeleted, "UInt8")
		case cfg.Mode.Has(types.Delete):
			errs = append(errs, "the query deletes rows, and the table has no column to mark them; make it ReplacingMergeTree(version, is_deleted)")
		}
	}
	return errs
}
