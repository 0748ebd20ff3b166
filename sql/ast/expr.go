package ast

// Expr is a scalar expression, or what may stand where one may: a star, a table
// argument, a named argument, a keyword argument.
type Expr interface {
	Node
	exprNode()
}

// Star is `*`, or `t.*` with a qualifier; in a select list or COUNT(*).
type Star struct {
	Span
	Qualifier *Name // nil for a bare star
}

// NumberLit is an unsigned numeric literal.
type NumberLit struct {
	Span
	Text string // as written, such as 12, 1.50 or 1E-3
	Kind NumberKind
}

// NumberKind tells which type family a numeric literal has.
type NumberKind uint8

// The kinds of numeric literals.
const (
	Integer     NumberKind = iota // digits only: INT, BIGINT or DECIMAL
	Decimal                       // with a point: exact DECIMAL
	Approximate                   // with an exponent: DOUBLE
)

// StringLit is a character string literal; adjacent literals on several lines
// are already joined.
type StringLit struct {
	Span
	Value   string
	Charset string // of a prefix such as _UTF16, without the underscore; usually empty
	Unicode bool   // written as U&'...'; escapes are resolved in Value
}

// BinaryLit is x'0AFF'.
type BinaryLit struct {
	Span
	Value []byte
}

// BoolLit is TRUE, FALSE or UNKNOWN.
type BoolLit struct {
	Span
	Value   bool
	Unknown bool // UNKNOWN: a NULL of type BOOLEAN
}

// NullLit is NULL.
type NullLit struct{ Span }

// DefaultLit is DEFAULT in VALUES or as an argument.
type DefaultLit struct{ Span }

// TemporalKind tells the type of a TemporalLit.
type TemporalKind uint8

// The kinds of temporal literals.
const (
	DateLit         TemporalKind = iota // DATE '2024-01-31'
	TimeLit                             // TIME '10:00:00'
	TimestampLit                        // TIMESTAMP '2024-01-31 10:00:00.123'
	TimestampLTZLit                     // TIMESTAMP WITH LOCAL TIME ZONE '...'
)

// TemporalLit is DATE, TIME or TIMESTAMP with a string. The string is checked
// by the binder.
type TemporalLit struct {
	Span
	Kind      TemporalKind
	Value     string
	ValueSpan Span // of the string with its quotes
}

// TimeUnit is a unit of time in upper case and singular: YEAR, QUARTER, MONTH,
// WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND, MICROSECOND, NANOSECOND, EPOCH,
// DOW, ISODOW, DOY, ISOYEAR, DECADE, CENTURY, MILLENNIUM. The SQL_TSI_ spellings
// and plurals are normalised to it.
type TimeUnit string

// IntervalQualifier is the unit part of an interval: DAY, DAY(3) TO SECOND(6).
type IntervalQualifier struct {
	Span
	From          TimeUnit
	To            TimeUnit // empty for a single unit
	FromPrecision int      // digits of the leading field, -1 if not given
	ToPrecision   int      // fractional digits of SECOND, -1 if not given
}

// IntervalLit is INTERVAL '1 02:00' DAY TO MINUTE.
type IntervalLit struct {
	Span
	Negative  bool   // a minus sign before the string
	Value     string // content of the string
	ValueSpan Span
	Qualifier IntervalQualifier
}

// IntervalExpr is INTERVAL x DAY, where x is not a string.
type IntervalExpr struct {
	Span
	Value     Expr
	Qualifier IntervalQualifier
}

// TimeDiff is (L - R) SECOND, the time from R to L as an interval.
type TimeDiff struct {
	Span
	L, R      Expr
	Qualifier IntervalQualifier
}

// Unary is a prefix operator: "-", "+", "NOT", and in MATCH_RECOGNIZE "FINAL"
// and "RUNNING".
type Unary struct {
	Span
	Op string
	X  Expr
}

// Binary is an infix operator, in upper case: + - * / % || = <> < <= > >= AND
// OR; OVERLAPS, CONTAINS, EQUALS, PRECEDES, SUCCEEDS, IMMEDIATELY PRECEDES,
// IMMEDIATELY SUCCEEDS on periods; MEMBER OF, SUBMULTISET OF, MULTISET UNION
// ALL|DISTINCT, MULTISET INTERSECT ALL|DISTINCT, MULTISET EXCEPT ALL|DISTINCT on
// multisets.
type Binary struct {
	Span
	Op     string
	OpSpan Span
	L, R   Expr
}

// Between is x [NOT] BETWEEN [SYMMETRIC] lo AND hi.
type Between struct {
	Span
	X, Lo, Hi Expr
	Symmetric bool
	Negated   bool
}

// In is x [NOT] IN (list) or x [NOT] IN (query). Either List or Query is set.
type In struct {
	Span
	X       Expr
	List    []Expr
	Query   *Query
	Negated bool
}

// LikeKind tells the pattern language of a Like.
type LikeKind uint8

// The pattern languages.
const (
	LikePattern    LikeKind = iota // LIKE
	SimilarPattern                 // SIMILAR TO
	RegexpPattern                  // RLIKE
	ILikePattern                   // ILIKE: LIKE without regard to case
)

// Like is x [NOT] LIKE pattern [ESCAPE c], or SIMILAR TO.
type Like struct {
	Span
	Kind    LikeKind
	X       Expr
	Pattern Expr
	Escape  Expr // nil without ESCAPE
	Negated bool
}

// IsTestKind is what an Is tests for.
type IsTestKind uint8

// The tests of IS. IsJSON and IsJSONValue mean the same.
const (
	IsNull IsTestKind = iota
	IsTrue
	IsFalse
	IsUnknown
	IsJSON
	IsJSONValue
	IsJSONScalar
	IsJSONArray
	IsJSONObject
	IsASet
	IsEmpty
)

// Is is x IS [NOT] test.
type Is struct {
	Span
	X       Expr
	Test    IsTestKind
	Negated bool
}

// IsDistinct is x IS [NOT] DISTINCT FROM y. Negated is the null-safe equality.
type IsDistinct struct {
	Span
	X, Y    Expr
	Negated bool
}

// Case is CASE [operand] WHEN ... THEN ... [ELSE ...] END.
type Case struct {
	Span
	Operand Expr // nil for a searched CASE
	Whens   []*When
	Else    Expr // nil without ELSE
}

// When is one branch of a Case. In a simple CASE a branch may list several
// values.
type When struct {
	Span
	Conds  []Expr // exactly one for a searched CASE
	Result Expr
}

// Cast is CAST(x AS type), or TRY_CAST.
type Cast struct {
	Span
	X    Expr
	Type *TypeName
	Try  bool
}

// FuncCall is a call, also of the functions with a syntax of their own, which
// are brought to plain arguments:
//
//	EXTRACT(unit FROM x)              EXTRACT(Symbol unit, x)
//	FLOOR|CEIL(x TO unit)             FLOOR(x, Symbol unit)
//	TRIM([where] [c] FROM s)          TRIM(Symbol BOTH|LEADING|TRAILING, c, s); c is ' ' if missing
//	SUBSTRING(s FROM a [FOR b])       SUBSTRING(s, a[, b])
//	OVERLAY(s PLACING r FROM a [FOR b])  OVERLAY(s, r, a[, b])
//	POSITION(a IN b [FROM c])         POSITION(a, b[, c])
//	TIMESTAMPADD|DIFF(unit, a, b)     TIMESTAMPADD(Symbol unit, a, b)
//	CONVERT(s USING cs), TRANSLATE(s USING cs)   CONVERT(s, Symbol cs)
//	JSON_OBJECT(k VALUE v, ...)       JSON_OBJECT(k, v, ...)
//	CURRENT_TIMESTAMP                 CURRENT_TIMESTAMP with NoParens
type FuncCall struct {
	Span
	Name *Name
	Args []Expr // may hold Star, NamedArg, TableArg, Descriptor, Symbol, DefaultLit

	Distinct bool         // COUNT(DISTINCT x)
	All      bool         // COUNT(ALL x), the same as without
	OrderBy  []*OrderItem // inside the parentheses
	NoParens bool         // CURRENT_DATE and the like

	WithinGroup []*OrderItem
	Filter      Expr        // FILTER (WHERE x)
	Over        *WindowSpec // nil without OVER
	Nulls       NullTreatment
	JSON        *JSONClauses // of the JSON_ functions; nil when none is written
}

// NullTreatment is RESPECT NULLS or IGNORE NULLS.
type NullTreatment uint8

// The null treatments.
const (
	NullsDefault NullTreatment = iota
	RespectNulls
	IgnoreNulls
)

// JSONClauses are the clauses of JSON_VALUE, JSON_QUERY, JSON_EXISTS,
// JSON_OBJECT, JSON_ARRAY, JSON_OBJECTAGG and JSON_ARRAYAGG.
type JSONClauses struct {
	Span
	Returning *TypeName
	Wrapper   string // WITHOUT, CONDITIONAL, UNCONDITIONAL; empty if not given
	OnEmpty   *JSONBehavior
	OnError   *JSONBehavior
	OnNull    string // NULL or ABSENT; empty if not given
	// FormatJSON lists the indexes into Args of values followed by FORMAT JSON.
	FormatJSON []int
	Passing    []*SelectItem // PASSING x AS name, ...
}

// JSONBehavior is what happens ON EMPTY or ON ERROR.
type JSONBehavior struct {
	Span
	Kind    string // NULL, ERROR, DEFAULT, EMPTY ARRAY, EMPTY OBJECT, TRUE, FALSE, UNKNOWN
	Default Expr   // of DEFAULT
}

// NamedArg is name => value.
type NamedArg struct {
	Span
	Name  Ident
	Value Expr
}

// Symbol is a keyword as an argument: a time unit, BOTH, a character set.
type Symbol struct {
	Span
	Word string // in upper case
}

// TableArg is a table as an argument of a table function: TABLE t, or a name or
// a query in parentheses followed by PARTITION BY. Either Name or Query is set. A
// query without clauses is a Subquery instead.
type TableArg struct {
	Span
	Name        *Name
	Hints       []*Hint
	Query       *Query
	Semantics   string // ROW or SET of "WITH ... SEMANTICS"; empty
	PartitionBy []Expr
	OrderBy     []*OrderItem
}

// ModelArg is MODEL m as an argument of ML_PREDICT and the like.
type ModelArg struct {
	Span
	Name *Name
}

// Descriptor is DESCRIPTOR(col, ...).
type Descriptor struct {
	Span
	Columns []*Name
}

// ArrayCtor is ARRAY[a, b, ...].
type ArrayCtor struct {
	Span
	Elems []Expr
}

// MapCtor is MAP[k1, v1, k2, v2, ...]; keys and values alternate.
type MapCtor struct {
	Span
	Elems []Expr
}

// MultisetCtor is MULTISET[a, b, ...].
type MultisetCtor struct {
	Span
	Elems []Expr
}

// QueryCtor is ARRAY(query), MAP(query) or MULTISET(query).
type QueryCtor struct {
	Span
	Kind  string // ARRAY, MAP, MULTISET
	Query *Query
}

// Row is ROW(a, b), or (a, b) when Explicit is false.
type Row struct {
	Span
	Explicit bool
	Elems    []Expr
}

// Index is x[i]: an element of an array or the value of a map.
type Index struct {
	Span
	X     Expr
	Index Expr
}

// Field is x.f where x is not a mere name: (x).f, f(x).g, a[1].b.
type Field struct {
	Span
	X    Expr
	Name Ident
}

// FieldStar is x.* where x is not a mere name.
type FieldStar struct {
	Span
	X Expr
}

// Subquery is a query in parentheses used as a value.
type Subquery struct {
	Span
	Query *Query
}

// Exists is EXISTS (query). UNIQUE (query) sets Unique.
type Exists struct {
	Span
	Query  *Query
	Unique bool
}

// Quantified is x op ANY|SOME|ALL (query or list). Either Query or List is set.
type Quantified struct {
	Span
	X          Expr
	Op         string // = <> < <= > >=
	Quantifier string // ANY, SOME, ALL
	Query      *Query
	List       []Expr
}

func (*Name) exprNode()         {}
func (*Star) exprNode()         {}
func (*NumberLit) exprNode()    {}
func (*StringLit) exprNode()    {}
func (*BinaryLit) exprNode()    {}
func (*BoolLit) exprNode()      {}
func (*NullLit) exprNode()      {}
func (*DefaultLit) exprNode()   {}
func (*TemporalLit) exprNode()  {}
func (*IntervalLit) exprNode()  {}
func (*IntervalExpr) exprNode() {}
func (*TimeDiff) exprNode()     {}
func (*Unary) exprNode()        {}
func (*Binary) exprNode()       {}
func (*Between) exprNode()      {}
func (*In) exprNode()           {}
func (*Like) exprNode()         {}
func (*Is) exprNode()           {}
func (*IsDistinct) exprNode()   {}
func (*Case) exprNode()         {}
func (*Cast) exprNode()         {}
func (*FuncCall) exprNode()     {}
func (*NamedArg) exprNode()     {}
func (*Symbol) exprNode()       {}
func (*TableArg) exprNode()     {}
func (*ModelArg) exprNode()     {}
func (*Descriptor) exprNode()   {}
func (*ArrayCtor) exprNode()    {}
func (*MapCtor) exprNode()      {}
func (*MultisetCtor) exprNode() {}
func (*QueryCtor) exprNode()    {}
func (*Row) exprNode()          {}
func (*Index) exprNode()        {}
func (*Field) exprNode()        {}
func (*FieldStar) exprNode()    {}
func (*Subquery) exprNode()     {}
func (*Exists) exprNode()       {}
func (*Quantified) exprNode()   {}
