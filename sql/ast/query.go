package ast

// Query is a full query: [WITH ...] body [ORDER BY ...] [LIMIT|OFFSET|FETCH].
// A query in parentheses inside a set operation is a Query too, so Query is
// itself a QueryBody.
type Query struct {
	Span
	With    []*CTE
	Recurse bool // WITH RECURSIVE
	Body    QueryBody
	OrderBy []*OrderItem
	Limit   Expr // of LIMIT n or FETCH FIRST n ROWS ONLY; nil if not given or LIMIT ALL
	Offset  Expr // nil if not given
}

// QueryBody is a Select, SetOp, Values, TableQuery or a Query in parentheses.
type QueryBody interface {
	Node
	queryNode()
}

// CTE is name [(columns)] AS (query).
type CTE struct {
	Span
	Name    Ident
	Columns []Ident
	Query   *Query
}

// Select is one SELECT block.
type Select struct {
	Span
	Hints    []*Hint
	Distinct bool
	All      bool // SELECT ALL, the same as without
	Items    []*SelectItem
	From     TableExpr // nil without FROM
	Where    Expr
	GroupBy  *GroupBy // nil without GROUP BY
	Having   Expr
	Windows  []*NamedWindow
	Qualify  Expr
}

// SelectItem is expr [[AS] alias]; the expression may be a Star.
type SelectItem struct {
	Span
	Expr  Expr
	Alias *Ident // nil without alias
}

// SetOpKind is UNION, INTERSECT or EXCEPT.
type SetOpKind uint8

// The set operations. MINUS is EXCEPT.
const (
	Union SetOpKind = iota
	Intersect
	Except
)

// SetOp combines two queries. INTERSECT binds tighter than the others, which
// associate to the left.
type SetOp struct {
	Span
	Op   SetOpKind
	All  bool
	L, R QueryBody
}

// Values is VALUES (a, b), (c, d). A row written without parentheses is a bare
// expression, else a Row.
type Values struct {
	Span
	Rows []Expr
}

// TableQuery is TABLE t used as a query.
type TableQuery struct {
	Span
	Name *Name
}

func (*Query) queryNode()      {}
func (*Select) queryNode()     {}
func (*SetOp) queryNode()      {}
func (*Values) queryNode()     {}
func (*TableQuery) queryNode() {}

// OrderItem is expr [ASC|DESC] [NULLS FIRST|LAST].
type OrderItem struct {
	Span
	Expr  Expr
	Desc  bool
	Nulls NullsOrder
}

// NullsOrder is where NULL sorts.
type NullsOrder uint8

// The null orders; NullsUnset leaves it to the default (NULL is the smallest).
const (
	NullsUnset NullsOrder = iota
	NullsFirst
	NullsLast
)

// GroupBy is GROUP BY [DISTINCT|ALL] items.
type GroupBy struct {
	Span
	Distinct bool
	Items    []*GroupItem
}

// GroupKind tells what a GroupItem is.
type GroupKind uint8

// The kinds of grouping items.
const (
	GroupExpr   GroupKind = iota // Expr
	GroupList                    // (a, b): Exprs as one composite key; empty is ()
	GroupSets                    // GROUPING SETS (Items)
	GroupRollup                  // ROLLUP (Items)
	GroupCube                    // CUBE (Items)
)

// GroupItem is one item of a GROUP BY or of a grouping set.
type GroupItem struct {
	Span
	Kind  GroupKind
	Expr  Expr         // of GroupExpr
	Exprs []Expr       // of GroupList
	Items []*GroupItem // of GroupSets, GroupRollup, GroupCube
}

// NamedWindow is name AS (spec) in the WINDOW clause.
type NamedWindow struct {
	Span
	Name Ident
	Spec *WindowSpec
}

// WindowSpec is what follows OVER: a name, or a specification in parentheses
// that may build on a named window.
type WindowSpec struct {
	Span
	Name        *Ident // OVER w, or the base of OVER (w ORDER BY ...)
	Bare        bool   // OVER w without parentheses
	PartitionBy []Expr
	OrderBy     []*OrderItem
	Frame       *Frame // nil if not given
	// AllowPartial is nil, or what ALLOW PARTIAL / DISALLOW PARTIAL says.
	AllowPartial *bool
}

// Frame is ROWS|RANGE [BETWEEN start AND end].
type Frame struct {
	Span
	Rows  bool // ROWS; otherwise RANGE
	Start *FrameBound
	End   *FrameBound // nil without BETWEEN: CURRENT ROW is meant
}

// BoundKind tells what a FrameBound is.
type BoundKind uint8

// The frame bounds.
const (
	CurrentRow BoundKind = iota
	UnboundedPreceding
	UnboundedFollowing
	Preceding
	Following
)

// FrameBound is one end of a frame.
type FrameBound struct {
	Span
	Kind   BoundKind
	Offset Expr // of Preceding and Following
}

// TableExpr is what FROM reads: a TableRef, DerivedTable, TableFunc, Unnest,
// MatchRecognize or Join.
type TableExpr interface {
	Node
	tableNode()
}

// TableAlias is [AS] name [(columns)].
type TableAlias struct {
	Span
	Name    Ident
	Columns []Ident
}

// Sample is TABLESAMPLE BERNOULLI|SYSTEM (percent) [REPEATABLE (seed)].
type Sample struct {
	Span
	Method  string // BERNOULLI, SYSTEM, or SUBSTITUTE
	Percent Expr
	Seed    Expr // nil without REPEATABLE
}

// TableRef is a table or view by name.
type TableRef struct {
	Span
	Name   *Name
	Hints  []*Hint
	AsOf   Expr // of FOR SYSTEM_TIME AS OF; nil if not given
	Alias  *TableAlias
	Sample *Sample
}

// DerivedTable is [LATERAL] (query) alias.
type DerivedTable struct {
	Span
	Lateral bool
	Query   *Query
	Hints   []*Hint
	Alias   *TableAlias
	Sample  *Sample
}

// TableFunc is a table function in FROM: [LATERAL] TABLE(f(...)), or the short
// form f(...).
type TableFunc struct {
	Span
	Lateral bool
	Wrapped bool // in TABLE(...)
	Call    *FuncCall
	Alias   *TableAlias
}

// Unnest is UNNEST(x, ...) [WITH ORDINALITY].
type Unnest struct {
	Span
	Lateral        bool
	Args           []Expr
	WithOrdinality bool
	Alias          *TableAlias
}

// JoinKind is the kind of a Join.
type JoinKind uint8

// The kinds of joins. CommaJoin is CrossJoin written with a comma.
const (
	InnerJoin JoinKind = iota
	LeftJoin
	RightJoin
	FullJoin
	CrossJoin
	CommaJoin
)

// Join joins two table expressions. At most one of Natural, On and Using is
// set.
type Join struct {
	Span
	Kind    JoinKind
	Natural bool
	L, R    TableExpr
	On      Expr
	Using   []Ident
}

// MatchRecognize is input MATCH_RECOGNIZE (...) [alias].
type MatchRecognize struct {
	Span
	Input       TableExpr
	PartitionBy []Expr
	OrderBy     []*OrderItem
	Measures    []*SelectItem // each with an alias
	AllRows     bool          // ALL ROWS PER MATCH; otherwise one row
	After       *AfterMatch   // nil if not given
	Pattern     Pattern
	StrictStart bool // ^ at the start
	StrictEnd   bool // $ at the end
	Within      Expr // an interval; nil if not given
	Subsets     []*Subset
	Define      []*PatternDef
	Alias       *TableAlias
}

// SkipKind tells where matching goes on after a match.
type SkipKind uint8

// The skip strategies.
const (
	SkipPastLastRow SkipKind = iota
	SkipToNextRow
	SkipToFirst
	SkipToLast
)

// AfterMatch is AFTER MATCH SKIP ...
type AfterMatch struct {
	Span
	Skip SkipKind
	Var  *Ident // of SkipToFirst and SkipToLast
}

// Subset is name = (a, b).
type Subset struct {
	Span
	Name Ident
	Vars []Ident
}

// PatternDef is variable AS condition.
type PatternDef struct {
	Span
	Var  Ident
	Cond Expr
}

// Pattern is a row pattern: PatternVar, PatternSeq, PatternAlt, PatternPermute,
// PatternExclude or PatternRepeat.
type Pattern interface {
	Node
	patternNode()
}

// PatternVar matches one row for a pattern variable.
type PatternVar struct {
	Span
	Var Ident
}

// PatternSeq matches its parts one after the other; without parts, nothing.
type PatternSeq struct {
	Span
	Parts []Pattern
}

// PatternAlt matches one of its parts, the first first.
type PatternAlt struct {
	Span
	Parts []Pattern
}

// PatternPermute matches its parts in any order.
type PatternPermute struct {
	Span
	Parts []Pattern
}

// PatternExclude is {- p -}.
type PatternExclude struct {
	Span
	X Pattern
}

// PatternRepeat repeats a pattern between Min and Max times.
type PatternRepeat struct {
	Span
	X         Pattern
	Min       int
	Max       int // -1 for no limit
	Reluctant bool
}

func (*TableRef) tableNode()       {}
func (*DerivedTable) tableNode()   {}
func (*TableFunc) tableNode()      {}
func (*Unnest) tableNode()         {}
func (*Join) tableNode()           {}
func (*MatchRecognize) tableNode() {}

func (*PatternVar) patternNode()     {}
func (*PatternSeq) patternNode()     {}
func (*PatternAlt) patternNode()     {}
func (*PatternPermute) patternNode() {}
func (*PatternExclude) patternNode() {}
func (*PatternRepeat) patternNode()  {}
