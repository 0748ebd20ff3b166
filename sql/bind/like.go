package bind

import (
	"slices"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/catalog"
)

// likeMerge is what LIKE does with one feature of the base table.
type likeMerge string

const (
	including   likeMerge = "INCLUDING"
	excluding   likeMerge = "EXCLUDING"
	overwriting likeMerge = "OVERWRITING"
)

// likeFeatures are the features, with what happens to each without a word in the LIKE clause, and
// whether the new table's may take the place of the base's.
var likeFeatures = map[string]struct {
	def       likeMerge
	overwrite bool
}{
	"CONSTRAINTS": {including, false}, "DISTRIBUTION": {including, false}, "GENERATED": {including, true},
	"METADATA": {including, true}, "OPTIONS": {overwriting, true}, "PARTITIONS": {including, false},
	"WATERMARKS": {including, true},
}

// likeMerges resolves the options of a LIKE clause.
func likeMerges(l *ast.LikeClause) (map[string]likeMerge, error) {
	out := map[string]likeMerge{}
	given := map[string]bool{}
	for f, d := range likeFeatures {
		out[f] = d.def
	}
	for _, o := range l.Options {
		if o.Feature != "ALL" {
			continue
		}
		if likeMerge(o.Merge) == overwriting {
			return nil, errAt(o.Span, "LIKE has no OVERWRITING ALL").WithHint("write INCLUDING ALL or EXCLUDING ALL")
		}
		for f := range likeFeatures {
			out[f] = likeMerge(o.Merge)
		}
	}
	for _, o := range l.Options {
		if given[o.Feature] {
			return nil, errAt(o.Span, "LIKE says twice what to do with %s", o.Feature)
		}
		given[o.Feature] = true
		if o.Feature == "ALL" {
			continue
		}
		f, ok := likeFeatures[o.Feature]
		if !ok {
			return nil, errAt(o.Span, "LIKE has no option %s", o.Feature)
		}
		if likeMerge(o.Merge) == overwriting && !f.overwrite {
			return nil, errAt(o.Span, "LIKE has no OVERWRITING %s", o.Feature).
				WithHint("write EXCLUDING %s and define them anew", o.Feature)
		}
		out[o.Feature] = likeMerge(o.Merge)
	}
	return out, nil
}

// mergeLike writes out CREATE TABLE ... LIKE base as the definition without LIKE that it stands
// for.
func (b *Binder) mergeLike(st *ast.CreateTable) (*ast.CreateTable, error) {
	merges, err := likeMerges(st.Like)
	if err != nil {
		return nil, err
	}
	var base *ast.CreateTable
	switch o := b.cat.Lookup(st.Like.Table.Strings()).(type) {
	case *catalog.Table:
		base = o.Def
	case *catalog.View:
		return nil, errAt(st.Like.Table.Span, "LIKE needs a table, but %s is a view", st.Like.Table)
	default:
		return nil, b.unknownTable(st.Like.Table, nil)
	}
	out := *st
	out.Like = nil
	own := st.Schema
	if own == nil {
		own = &ast.TableSchema{Span: st.Name.Span}
	}
	schema := &ast.TableSchema{Span: own.Span}
	out.Schema = schema
	if schema.Columns, err = mergeColumns(base.Schema.Columns, own.Columns, merges); err != nil {
		return nil, err
	}
	if err := mergeWatermark(schema, base.Schema, own, merges["WATERMARKS"]); err != nil {
		return nil, err
	}
	if err := mergeKeys(schema, base.Schema, own, merges["CONSTRAINTS"]); err != nil {
		return nil, err
	}
	if merges["PARTITIONS"] == including && len(base.PartitionedBy) > 0 {
		if len(st.PartitionedBy) > 0 {
			return nil, errAt(st.PartitionedBy[0].Span, "the base table has PARTITIONED BY too").
				WithHint("add EXCLUDING PARTITIONS")
		}
		out.PartitionedBy = base.PartitionedBy
	}
	if st.Comment == nil {
		out.Comment = base.Comment
	}
	out.Options, err = mergeOptions(base.Options, st.Options, merges["OPTIONS"])
	return &out, err
}

// mergeColumns puts the base's columns before the new ones.
func mergeColumns(base, own []*ast.Column, merges map[string]likeMerge) ([]*ast.Column, error) {
	var out []*ast.Column
	for _, c := range base {
		feature := map[ast.ColumnKind]string{ast.ComputedColumn: "GENERATED", ast.MetadataColumn: "METADATA"}[c.Kind]
		if feature != "" && merges[feature] == excluding {
			continue
		}
		i := slices.IndexFunc(own, func(o *ast.Column) bool { return o.Name.Name == c.Name.Name })
		if i < 0 {
			// An inline key goes the way of the constraints.
			plain := *c
			plain.Constraint = nil
			out = append(out, &plain)
			continue
		}
		if feature == "" || own[i].Kind != c.Kind || merges[feature] != overwriting {
			err := errAt(own[i].Name.Span, "the base table has a column %s too", c.Name.Name)
			if feature != "" && own[i].Kind == c.Kind {
				return nil, err.WithHint("add OVERWRITING %s", feature)
			}
			return nil, err.WithHint("give it another name")
		}
	}
	return append(out, own...), nil
}

func mergeWatermark(out, base, own *ast.TableSchema, m likeMerge) error {
	out.Watermark = own.Watermark
	if base.Watermark == nil || m == excluding {
		return nil
	}
	if own.Watermark == nil {
		out.Watermark = base.Watermark
		return nil
	}
	if m != overwriting {
		return errAt(own.Watermark.Span, "the base table has a watermark too").WithHint("add OVERWRITING WATERMARKS")
	}
	return nil
}

// keysOf lists the constraints of a definition, those of columns included.
func keysOf(s *ast.TableSchema) []*ast.Constraint {
	out := slices.Clone(s.Constraints)
	for _, c := range s.Columns {
		if c.Constraint != nil {
			k := *c.Constraint
			k.Columns = []ast.Ident{c.Name}
			out = append(out, &k)
		}
	}
	return out
}

func mergeKeys(out, base, own *ast.TableSchema, m likeMerge) error {
	out.Constraints = own.Constraints
	if m == excluding {
		return nil
	}
	keys := keysOf(base)
	if mine := keysOf(own); len(keys) > 0 && len(mine) > 0 {
		return errAt(mine[0].Span, "the base table has a primary key too").WithHint("add EXCLUDING CONSTRAINTS")
	}
	out.Constraints = append(keys, own.Constraints...)
	return nil
}

func mergeOptions(base, own []*ast.Option, m likeMerge) ([]*ast.Option, error) {
	if m == excluding {
		return own, nil
	}
	var out []*ast.Option
	for _, o := range base {
		i := slices.IndexFunc(own, func(x *ast.Option) bool { return x.Key.Value == o.Key.Value })
		if i < 0 {
			out = append(out, o)
		} else if m != overwriting {
			return nil, errAt(own[i].Span, "the base table has option '%s' too", o.Key.Value).
				WithHint("add OVERWRITING OPTIONS")
		}
	}
	return append(out, own...), nil
}
