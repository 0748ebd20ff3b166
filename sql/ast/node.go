// Package ast is the syntax tree of Tidemark's SQL: that of Apache Flink, and
// what Tidemark adds.
//
// The tree says what was written, not what it means: names are not resolved,
// types not checked, defaults not filled in. Spellings that mean the same are
// brought to one form where nothing is lost by it (`!=` becomes `<>`,
// `SUBSTRING(s FROM 1)` the call SUBSTRING(s, 1)), so that whoever reads the
// tree handles one form.
//
// Every node embeds a Span with its byte offsets in the source text. Statements,
// expressions, queries, table expressions and types are built by package parse;
// Format turns any of them into SQL text again, and parsing that text gives an
// equal tree but for positions. Walk visits a tree.
//
// Nodes are plain data. The parser hands a tree over and keeps nothing of it;
// readers may share a tree between goroutines as long as none writes.
//
// Stability: internal use.
package ast

import (
	"strings"

	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// Span is a node's place in the source text, in bytes.
type Span = sqlerr.Span

// Node is any part of a syntax tree.
type Node interface {
	// Pos returns the source text that the node covers.
	Pos() Span
}

// Ident is one identifier.
type Ident struct {
	Span
	// Name is the identifier as meant: without quotes, escapes resolved.
	// Identifiers are case-sensitive.
	Name string
	// Quoted tells that it was written in backticks.
	Quoted bool
}

// Name is one or more identifiers joined by dots: a column, a field path, a
// table or a function. As an expression it refers to a column, a field of one,
// or a pattern variable's column; which one is for the binder to say.
type Name struct {
	Span
	Parts []Ident // at least one
}

// NewName returns a Name of unquoted parts without positions.
func NewName(parts ...string) *Name {
	n := &Name{Parts: make([]Ident, len(parts))}
	for i, p := range parts {
		n.Parts[i] = Ident{Name: p}
	}
	return n
}

// Last returns the last part.
func (n *Name) Last() Ident { return n.Parts[len(n.Parts)-1] }

// Strings returns the parts as plain strings.
func (n *Name) Strings() []string {
	s := make([]string, len(n.Parts))
	for i, p := range n.Parts {
		s[i] = p.Name
	}
	return s
}

// String joins the parts by dots, without quoting; for messages.
func (n *Name) String() string { return strings.Join(n.Strings(), ".") }

// Upper returns the parts joined by dots in upper case; functions are looked up
// by it.
func (n *Name) Upper() string { return strings.ToUpper(n.String()) }

// Option is 'key' = 'value' in WITH, SET or a hint.
type Option struct {
	Span
	Key   *StringLit
	Value *StringLit
}

// Hint is one hint of a comment /*+ NAME(...), NAME(...) */. It has options
// (`OPTIONS('k'='v')`), or positional arguments (`BROADCAST(t1, t2)`), or none.
type Hint struct {
	Span
	Name    Ident
	Options []*Option
	Args    []Expr // Name or literal
}
