package ast

// CreateTable is CREATE [OR REPLACE] [TEMPORARY] TABLE, REPLACE TABLE, and
// CREATE TABLE ... AS query.
type CreateTable struct {
	Span
	OrReplace   bool // CREATE OR REPLACE
	Replace     bool // REPLACE TABLE without CREATE
	Temporary   bool
	IfNotExists bool
	Name        *Name
	Schema      *TableSchema // nil without a column list
	// ColumnNames is the bare list of names of CREATE TABLE t (a, b) AS query,
	// which reorders the query's columns.
	ColumnNames   []Ident
	Comment       *StringLit
	Distribution  *Distribution
	PartitionedBy []Ident
	Options       []*Option
	Like          *LikeClause
	As            *Query
}

// TableSchema is the list in parentheses of a table's definition. Each slice is
// in source order.
type TableSchema struct {
	Span
	Columns     []*Column
	Watermark   *Watermark // nil if not given
	Constraints []*Constraint
}

// ColumnKind tells what a column is.
type ColumnKind uint8

// The kinds of columns.
const (
	PhysicalColumn ColumnKind = iota // name type
	ComputedColumn                   // name AS expr
	MetadataColumn                   // name type METADATA [FROM 'key'] [VIRTUAL]
)

// Column is one column of a table.
type Column struct {
	Span
	Name        Ident
	Kind        ColumnKind
	Type        *TypeName   // nil for a computed column
	Expr        Expr        // of a computed column
	MetadataKey *StringLit  // of METADATA FROM; nil: the column's own name
	Virtual     bool        // METADATA VIRTUAL
	Constraint  *Constraint // inline PRIMARY KEY or UNIQUE; nil if not given
	Default     Expr        // DEFAULT expr; nil if not given
	Comment     *StringLit
	Position    *ColumnPosition // of ALTER TABLE; nil if not given
}

// ColumnPosition is FIRST or AFTER column.
type ColumnPosition struct {
	Span
	First bool
	After *Name
}

// Watermark is WATERMARK FOR column AS expr. The column may be a field of a row.
type Watermark struct {
	Span
	Column *Name
	Expr   Expr
}

// ConstraintKind is PRIMARY KEY or UNIQUE.
type ConstraintKind uint8

// The kinds of constraints.
const (
	PrimaryKey ConstraintKind = iota
	Unique
)

// Enforcement is ENFORCED or NOT ENFORCED.
type Enforcement uint8

// The enforcements. Unset is ENFORCED by the standard; only NOT ENFORCED can be
// kept for a table whose data lies elsewhere.
const (
	EnforcementUnset Enforcement = iota
	Enforced
	NotEnforced
)

// Constraint is [CONSTRAINT name] PRIMARY KEY|UNIQUE (columns) [NOT ENFORCED].
type Constraint struct {
	Span
	Name        *Ident // nil if not given
	Kind        ConstraintKind
	Columns     []Ident // empty for an inline constraint
	Enforcement Enforcement
}

// Distribution is DISTRIBUTED [BY [HASH|RANGE]] (columns) [INTO n BUCKETS].
type Distribution struct {
	Span
	Kind    string // HASH, RANGE or empty
	Columns []Ident
	Buckets int // 0 if not given
}

// LikeClause is LIKE table [(options)].
type LikeClause struct {
	Span
	Table   *Name
	Options []*LikeOption
}

// LikeOption is one option of LIKE, such as EXCLUDING OPTIONS.
type LikeOption struct {
	Span
	Merge   string // INCLUDING, EXCLUDING, OVERWRITING
	Feature string // ALL, CONSTRAINTS, DISTRIBUTION, GENERATED, METADATA, OPTIONS, PARTITIONS, WATERMARKS
}

// CreateView is CREATE [OR REPLACE] [TEMPORARY] VIEW.
type CreateView struct {
	Span
	OrReplace   bool
	Temporary   bool
	IfNotExists bool
	Name        *Name
	Columns     []*ViewColumn
	Comment     *StringLit
	Query       *Query
}

// ViewColumn is a column name of a view.
type ViewColumn struct {
	Span
	Name    Ident
	Comment *StringLit
}

// CreateFunction is CREATE [TEMPORARY [SYSTEM]] FUNCTION.
type CreateFunction struct {
	Span
	Temporary   bool
	System      bool
	IfNotExists bool
	Name        *Name
	Class       *StringLit
	Language    string // JAVA, SCALA, PYTHON, SQL; empty if not given
	Using       []*Resource
	Options     []*Option
}

// Resource is JAR 'path' of a function.
type Resource struct {
	Span
	Kind string // JAR, FILE, ARCHIVE
	Path *StringLit
}

// CreateCatalog is CREATE CATALOG.
type CreateCatalog struct {
	Span
	IfNotExists bool
	Name        Ident
	Comment     *StringLit
	Options     []*Option
}

// CreateDatabase is CREATE DATABASE.
type CreateDatabase struct {
	Span
	IfNotExists bool
	Name        *Name
	Comment     *StringLit
	Options     []*Option
}

// CreateModel is CREATE [TEMPORARY] MODEL.
type CreateModel struct {
	Span
	OrReplace   bool
	Temporary   bool
	IfNotExists bool
	Name        *Name
	Input       []*Column
	Output      []*Column
	Comment     *StringLit
	Options     []*Option
	As          *Query
}

// CreateConnection is CREATE [TEMPORARY [SYSTEM]] CONNECTION.
type CreateConnection struct {
	Span
	Temporary   bool
	System      bool
	IfNotExists bool
	Name        *Name
	Comment     *StringLit
	Options     []*Option
}

// CreateMaterializedTable is CREATE [OR ALTER|OR REPLACE] MATERIALIZED TABLE.
type CreateMaterializedTable struct {
	Span
	OrAlter       bool
	OrReplace     bool
	IfNotExists   bool
	Name          *Name
	Schema        *TableSchema
	ColumnNames   []Ident
	Comment       *StringLit
	Distribution  *Distribution
	PartitionedBy []Ident
	Options       []*Option
	Freshness     Expr   // an interval; nil if not given
	RefreshMode   string // FULL, CONTINUOUS; empty if not given
	As            *Query
}

// ObjectKind names a kind of catalog object in upper case: TABLE, VIEW,
// FUNCTION, CATALOG, DATABASE, MODEL, CONNECTION, MATERIALIZED TABLE, JOB.
type ObjectKind string

// The kinds of objects.
const (
	ObjTable             ObjectKind = "TABLE"
	ObjView              ObjectKind = "VIEW"
	ObjFunction          ObjectKind = "FUNCTION"
	ObjCatalog           ObjectKind = "CATALOG"
	ObjDatabase          ObjectKind = "DATABASE"
	ObjModel             ObjectKind = "MODEL"
	ObjConnection        ObjectKind = "CONNECTION"
	ObjMaterializedTable ObjectKind = "MATERIALIZED TABLE"
	ObjJob               ObjectKind = "JOB"
)

// Drop is DROP [TEMPORARY [SYSTEM]] kind [IF EXISTS] name [RESTRICT|CASCADE].
type Drop struct {
	Span
	Kind      ObjectKind
	Temporary bool
	System    bool
	IfExists  bool
	Name      *Name
	Behavior  string // RESTRICT, CASCADE or empty
}

// Alter is ALTER kind [IF EXISTS] name [PARTITION (...)] action.
type Alter struct {
	Span
	Kind      ObjectKind
	Temporary bool
	System    bool
	IfExists  bool
	Name      *Name
	Partition []*PartitionValue
	Action    AlterAction
}

// PartitionValue is column [= value] of a PARTITION clause.
type PartitionValue struct {
	Span
	Column Ident
	Value  Expr // a literal; nil for a dynamic partition column
}

// AlterAction is what an Alter does.
type AlterAction interface {
	Node
	alterNode()
}

// AlterRename is RENAME TO name.
type AlterRename struct {
	Span
	To *Name
}

// AlterRenameColumn is RENAME old TO new.
type AlterRenameColumn struct {
	Span
	From *Name
	To   Ident
}

// AlterSet is SET ('k' = 'v', ...).
type AlterSet struct {
	Span
	Options []*Option
}

// AlterReset is RESET ('k', ...).
type AlterReset struct {
	Span
	Keys []*StringLit
}

// AlterComment is COMMENT 'text'.
type AlterComment struct {
	Span
	Comment *StringLit
}

// AlterAdd is ADD column, constraint, watermark or distribution, alone or
// several in parentheses.
type AlterAdd struct {
	Span
	Schema       *TableSchema
	Distribution *Distribution
}

// AlterModify is MODIFY with what AlterAdd has.
type AlterModify struct {
	Span
	Schema       *TableSchema
	Distribution *Distribution
}

// AlterDropColumns is DROP column, or DROP (a, b).
type AlterDropColumns struct {
	Span
	Columns []*Name
}

// AlterDropConstraint is DROP PRIMARY KEY (Name nil) or DROP CONSTRAINT name.
type AlterDropConstraint struct {
	Span
	Name *Ident
}

// AlterDropWatermark is DROP WATERMARK.
type AlterDropWatermark struct{ Span }

// AlterDropDistribution is DROP DISTRIBUTION.
type AlterDropDistribution struct{ Span }

// AlterAddPartitions is ADD [IF NOT EXISTS] PARTITION (...) [WITH (...)] ...
type AlterAddPartitions struct {
	Span
	IfNotExists bool
	Partitions  []*PartitionSpec
}

// PartitionSpec is PARTITION (...) [WITH (...)].
type PartitionSpec struct {
	Span
	Values  []*PartitionValue
	Options []*Option
}

// AlterDropPartitions is DROP [IF EXISTS] PARTITION (...), ...
type AlterDropPartitions struct {
	Span
	IfExists   bool
	Partitions []*PartitionSpec
}

// AlterAs is AS query, of views and materialized tables.
type AlterAs struct {
	Span
	Query *Query
}

// AlterFunction is AS 'class' [LANGUAGE l] [USING ...].
type AlterFunction struct {
	Span
	Class    *StringLit
	Language string
	Using    []*Resource
}

// AlterSuspend is SUSPEND.
type AlterSuspend struct{ Span }

// AlterResume is RESUME [WITH (...)].
type AlterResume struct {
	Span
	Options []*Option
}

// AlterRefresh is REFRESH [PARTITION (...)].
type AlterRefresh struct {
	Span
	Partition []*PartitionValue
}

// AlterFreshness is SET FRESHNESS = interval.
type AlterFreshness struct {
	Span
	Freshness Expr
}

// AlterRefreshMode is SET REFRESH_MODE = mode; an empty mode is RESET.
type AlterRefreshMode struct {
	Span
	Mode string
}

func (*AlterRename) alterNode()           {}
func (*AlterRenameColumn) alterNode()     {}
func (*AlterSet) alterNode()              {}
func (*AlterReset) alterNode()            {}
func (*AlterComment) alterNode()          {}
func (*AlterAdd) alterNode()              {}
func (*AlterModify) alterNode()           {}
func (*AlterDropColumns) alterNode()      {}
func (*AlterDropConstraint) alterNode()   {}
func (*AlterDropWatermark) alterNode()    {}
func (*AlterDropDistribution) alterNode() {}
func (*AlterAddPartitions) alterNode()    {}
func (*AlterDropPartitions) alterNode()   {}
func (*AlterAs) alterNode()               {}
func (*AlterFunction) alterNode()         {}
func (*AlterSuspend) alterNode()          {}
func (*AlterResume) alterNode()           {}
func (*AlterRefresh) alterNode()          {}
func (*AlterFreshness) alterNode()        {}
func (*AlterRefreshMode) alterNode()      {}
