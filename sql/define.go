package sql

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/bind"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// unsupported refuses a statement that parses but has no effect here.
func unsupported(st ast.Statement) error {
	return sqlerr.New(st.Pos(), "%s is not supported yet", statementName(st))
}

// statementName is the statement's first words.
func statementName(st ast.Statement) string {
	text := strings.Fields(ast.Format(st))
	n := 0
	for n < len(text) && n < 3 && text[n] == strings.ToUpper(text[n]) && !strings.ContainsAny(text[n], "'`(;") {
		n++
	}
	if n == 0 {
		return "this statement"
	}
	return strings.Join(text[:n], " ")
}

// set changes a key, or lists what is set.
func (s *Session) set(st *ast.Set) (*Result, error) {
	if st.Key == "" {
		all := s.cfg.All()
		var keys []string
		for k := range all {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		r := &Result{Schema: stringColumns("key", "value")}
		for _, k := range keys {
			r.Rows = append(r.Rows, []types.Value{k, all[k]})
		}
		return r, nil
	}
	if near := catalog.Misspelt(st.Key); near != "" && s.o.Warn != nil {
		if s.warned == nil {
			s.warned = map[string]bool{}
		}
		s.warned[st.Key] = true
		s.o.Warn(fmt.Sprintf("SET '%s': no such key is known; did you mean '%s'?", st.Key, near))
	}
	if err := s.cfg.Set(st.Key, st.Value); err != nil {
		var oe *option.Error
		if !errors.As(err, &oe) {
			return nil, sqlerr.At(st.Span, err)
		}
		at := st.ValueSpan
		if strings.HasPrefix(oe.Msg, "unknown key") {
			at = st.KeySpan
		}
		return nil, &sqlerr.Error{Pos: at, Msg: oe.Msg, Hint: oe.Hint}
	}
	return ok()
}

func stringColumns(names ...string) types.Schema {
	var out types.Schema
	for _, n := range names {
		out.Fields = append(out.Fields, types.Field{Name: n, Type: types.StringType.NotNull()})
	}
	return out
}

// kindOf names what stands in the catalog.
func kindOf(object any) string {
	if _, ok := object.(*catalog.View); ok {
		return "view"
	}
	return "table"
}

// taken reports whether a new object can be left out because it exists, or is an error for that.
// A temporary object may have the name of one that is not.
func (s *Session) taken(n *ast.Name, temporary, ifNotExists, replace bool) (skip bool, err error) {
	old := s.cat.LookupKind(n.Strings(), temporary)
	switch {
	case old == nil || replace:
		return false, nil
	case ifNotExists:
		return true, nil
	}
	return false, sqlerr.New(n.Span, "%s %s exists already", kindOf(old), n).
		WithHint("write DROP %s %s first, or CREATE %s IF NOT EXISTS",
			strings.ToUpper(kindOf(old)), n, strings.ToUpper(kindOf(old)))
}

func (s *Session) createTable(st *ast.CreateTable) (*Result, error) {
	skip, err := s.taken(st.Name, st.Temporary, st.IfNotExists, st.OrReplace || st.Replace)
	if err != nil {
		return nil, err
	}
	if skip {
		return ok()
	}
	b := bind.New(s.cat, s.cfg)
	if st.As != nil {
		return s.createTableAs(b, st)
	}
	t, err := b.CreateTable(st)
	if err != nil {
		return nil, err
	}
	s.cat.Put(t.Path, t)
	return ok()
}

// createTableAs defines a table by a query and fills it with the query's rows. The table stays
// defined only if the job can be planned.
func (s *Session) createTableAs(b *bind.Binder, st *ast.CreateTable) (*Result, error) {
	t, insert, err := b.CreateTableAs(st)
	if err != nil {
		return nil, err
	}
	old := s.cat.LookupKind(t.Path, t.Temporary)
	s.cat.Put(t.Path, t)
	r, err := s.job(insert)
	if err == nil {
		return r, nil
	}
	s.cat.DropKind(t.Path, t.Temporary)
	if old != nil {
		s.cat.Put(t.Path, old)
	}
	return nil, err
}

func (s *Session) createView(st *ast.CreateView) (*Result, error) {
	skip, err := s.taken(st.Name, st.Temporary, st.IfNotExists, st.OrReplace)
	if err != nil {
		return nil, err
	}
	if skip {
		return ok()
	}
	v, err := bind.New(s.cat, s.cfg).CreateView(st)
	if err != nil {
		return nil, err
	}
	s.cat.Put(v.Path, v)
	return ok()
}

func (s *Session) createDatabase(st *ast.CreateDatabase) (*Result, error) {
	name, err := s.database(st.Name)
	if err != nil {
		return nil, err
	}
	if s.cat.HasDatabase(name) {
		if st.IfNotExists {
			return ok()
		}
		return nil, sqlerr.New(st.Name.Span, "database %s exists already", name).
			WithHint("write CREATE DATABASE IF NOT EXISTS %s", name)
	}
	s.cat.CreateDatabase(name)
	return ok()
}

// database reads [catalog.]database.
func (s *Session) database(n *ast.Name) (string, error) {
	parts := n.Strings()
	switch {
	case len(parts) > 2:
		return "", sqlerr.New(n.Span, "a database's name has at most two parts: catalog and database")
	case len(parts) == 2 && parts[0] != s.cat.Name:
		return "", s.unknownCatalog(n.Parts[0])
	}
	return parts[len(parts)-1], nil
}

func (s *Session) unknownCatalog(at ast.Ident) error {
	return sqlerr.New(at.Span, "unknown catalog %s", at.Name).WithHint("the only catalog is %s", s.cat.Name)
}

func (s *Session) unknownDatabase(n *ast.Name) error {
	name := n.Last().Name
	hint := sqlerr.DidYouMean(name, s.cat.Databases())
	if hint == "" {
		hint = "databases are " + strings.Join(s.cat.Databases(), ", ")
	}
	return sqlerr.New(n.Span, "unknown database %s", name).WithHint("%s", hint)
}

func (s *Session) drop(st *ast.Drop) (*Result, error) {
	switch st.Kind {
	case ast.ObjDatabase:
		return s.dropDatabase(st)
	case ast.ObjTable, ast.ObjView:
		want := strings.ToLower(string(st.Kind))
		old := s.cat.Lookup(st.Name.Strings())
		if st.Temporary {
			old = s.cat.LookupKind(st.Name.Strings(), true)
		}
		if old == nil {
			if st.IfExists {
				return ok()
			}
			if have := s.cat.Lookup(st.Name.Strings()); st.Temporary && have != nil {
				return nil, sqlerr.New(st.Name.Span, "%s %s is not temporary", kindOf(have), st.Name).
					WithHint("write DROP %s %s", strings.ToUpper(kindOf(have)), st.Name)
			}
			return nil, s.unknownObject(st.Name, want)
		}
		if have := kindOf(old); have != want {
			return nil, sqlerr.New(st.Name.Span, "%s is a %s", st.Name, have).
				WithHint("write DROP %s %s", strings.ToUpper(have), st.Name)
		}
		s.cat.Drop(s.cat.Qualify(st.Name.Strings()))
		return ok()
	}
	if st.IfExists {
		return ok() // nothing of the kind exists
	}
	return nil, unsupported(st)
}

// unknownObject is the error of a table or view that is not there.
func (s *Session) unknownObject(n *ast.Name, want string) error {
	path := s.cat.Qualify(n.Strings())
	if len(path) == 3 && path[0] != s.cat.Name {
		return s.unknownCatalog(n.Parts[0])
	}
	err := sqlerr.New(n.Span, "unknown %s %s", want, n)
	if len(path) != 3 {
		return err
	}
	if hint := sqlerr.DidYouMean(n.Last().Name, s.cat.Objects(path[1])); hint != "" {
		return err.WithHint("%s", hint)
	}
	return err.WithHint("SHOW %sS lists what there is", strings.ToUpper(want))
}

func (s *Session) dropDatabase(st *ast.Drop) (*Result, error) {
	name, err := s.database(st.Name)
	if err != nil {
		return nil, err
	}
	switch {
	case !s.cat.HasDatabase(name):
		if st.IfExists {
			return ok()
		}
		return nil, s.unknownDatabase(st.Name)
	case name == s.cat.Database:
		return nil, sqlerr.New(st.Name.Span, "database %s is in use", name).WithHint("write USE another_database first")
	case len(s.cat.Objects(name)) > 0 && st.Behavior != "CASCADE":
		return nil, sqlerr.New(st.Name.Span, "database %s is not empty", name).
			WithHint("write DROP DATABASE %s CASCADE", name)
	}
	s.cat.DropDatabase(name)
	return ok()
}

func (s *Session) use(st *ast.Use) (*Result, error) {
	switch st.Kind {
	case ast.ObjCatalog:
		if last := st.Name.Last(); last.Name != s.cat.Name {
			return nil, s.unknownCatalog(last)
		}
		return ok()
	case ast.ObjDatabase:
		name, err := s.database(st.Name)
		if err != nil {
			return nil, err
		}
		if !s.cat.HasDatabase(name) {
			return nil, s.unknownDatabase(st.Name)
		}
		s.cat.Database = name
		return ok()
	}
	return nil, unsupported(st)
}
