package ast

// Statement is one statement of a script. Its span covers the text without the
// closing semicolon.
type Statement interface {
	Node
	stmtNode()
}

// QueryStmt is a query as a statement: its rows are shown.
type QueryStmt struct {
	Span
	Query *Query
}

// Insert is INSERT INTO|OVERWRITE table [PARTITION (...)] [(columns)] query.
type Insert struct {
	Span
	Overwrite  bool
	Upsert     bool // written UPSERT INTO
	Table      *Name
	Hints      []*Hint
	Partition  []*PartitionValue
	Columns    []*Name // empty: all columns in order
	Query      *Query
	OnConflict string // DO NOTHING, DO ERROR, DO DEDUPLICATE; empty if not given
}

// StatementSet is EXECUTE STATEMENT SET BEGIN ... END, or BEGIN STATEMENT SET;
// ... END;. Its statements run as one job.
type StatementSet struct {
	Span
	Statements []Statement // Insert
}

// Explain is EXPLAIN [PLAN FOR | details] statement.
type Explain struct {
	Span
	// Details are ESTIMATED_COST, CHANGELOG_MODE, PLAN_ADVICE,
	// JSON_EXECUTION_PLAN, in upper case.
	Details   []string
	Statement Statement
}

// Describe is DESCRIBE|DESC [kind] [EXTENDED] name.
type Describe struct {
	Span
	Kind     ObjectKind // TABLE when not written
	Extended bool
	Name     *Name      // nil for a job
	Job      *StringLit // of DESCRIBE JOB
}

// Show is SHOW what [FROM|IN name] [[NOT] LIKE|ILIKE 'pattern'] and the like.
type Show struct {
	Span
	// What is in upper case: CATALOGS, CURRENT CATALOG, DATABASES, CURRENT
	// DATABASE, TABLES, VIEWS, MATERIALIZED TABLES, COLUMNS, PARTITIONS,
	// FUNCTIONS, USER FUNCTIONS, PROCEDURES, MODULES, FULL MODULES, MODELS,
	// CONNECTIONS, JARS, JOBS, or CREATE with an object kind, such as CREATE
	// TABLE.
	What      string
	Name      *Name // object of CREATE, COLUMNS, PARTITIONS; or the database
	Partition []*PartitionValue
	Like      *StringLit // nil if not given
	ILike     bool
	Negated   bool
}

// Use is USE [CATALOG] name, or USE MODULES a, b.
type Use struct {
	Span
	Kind    ObjectKind // DATABASE, CATALOG, or "MODULES"
	Name    *Name      // nil for modules
	Modules []Ident
}

// Set is SET 'key' = 'value', or a bare SET that lists what is set.
type Set struct {
	Span
	Key       string // empty for a bare SET
	Value     string
	KeySpan   Span
	ValueSpan Span
}

// Reset is RESET 'key', or a bare RESET for all.
type Reset struct {
	Span
	Key     string
	KeySpan Span
}

// LoadModule is LOAD MODULE name [WITH (...)].
type LoadModule struct {
	Span
	Name    Ident
	Options []*Option
}

// UnloadModule is UNLOAD MODULE name.
type UnloadModule struct {
	Span
	Name Ident
}

// Jar is ADD JAR 'path' or REMOVE JAR 'path'.
type Jar struct {
	Span
	Remove bool
	Path   *StringLit
}

// Call is CALL procedure(args).
type Call struct {
	Span
	Call *FuncCall
}

// Analyze is ANALYZE TABLE t [PARTITION (...)] COMPUTE STATISTICS [FOR ...].
type Analyze struct {
	Span
	Table      *Name
	Partition  []*PartitionValue
	Columns    []Ident // of FOR COLUMNS
	AllColumns bool    // FOR ALL COLUMNS
}

// CompilePlan is COMPILE [AND EXECUTE] PLAN 'file' [IF NOT EXISTS] FOR
// statement.
type CompilePlan struct {
	Span
	Execute     bool
	File        *StringLit
	IfNotExists bool
	Statement   Statement // Insert or StatementSet
}

// ExecutePlan is EXECUTE PLAN 'file'.
type ExecutePlan struct {
	Span
	File *StringLit
}

// StopJob is STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN].
type StopJob struct {
	Span
	ID        *StringLit
	Savepoint bool
	Drain     bool
}

// Update is UPDATE table SET column = expr, ... [WHERE cond].
type Update struct {
	Span
	Table *Name
	Alias *Ident
	Sets  []*Assignment
	Where Expr
}

// Assignment is column = value.
type Assignment struct {
	Span
	Column *Name
	Value  Expr
}

// Delete is DELETE FROM table [WHERE cond].
type Delete struct {
	Span
	Table *Name
	Alias *Ident
	Where Expr
}

// Truncate is TRUNCATE TABLE table.
type Truncate struct {
	Span
	Table *Name
}

// Command is a word for an interactive session: QUIT, EXIT, CLEAR, HELP.
type Command struct {
	Span
	Name string // in upper case
}

func (*QueryStmt) stmtNode()               {}
func (*Insert) stmtNode()                  {}
func (*StatementSet) stmtNode()            {}
func (*Explain) stmtNode()                 {}
func (*Describe) stmtNode()                {}
func (*Show) stmtNode()                    {}
func (*Use) stmtNode()                     {}
func (*Set) stmtNode()                     {}
func (*Reset) stmtNode()                   {}
func (*LoadModule) stmtNode()              {}
func (*UnloadModule) stmtNode()            {}
func (*Jar) stmtNode()                     {}
func (*Call) stmtNode()                    {}
func (*Analyze) stmtNode()                 {}
func (*CompilePlan) stmtNode()             {}
func (*ExecutePlan) stmtNode()             {}
func (*StopJob) stmtNode()                 {}
func (*Update) stmtNode()                  {}
func (*Delete) stmtNode()                  {}
func (*Truncate) stmtNode()                {}
func (*Command) stmtNode()                 {}
func (*CreateTable) stmtNode()             {}
func (*CreateView) stmtNode()              {}
func (*CreateFunction) stmtNode()          {}
func (*CreateCatalog) stmtNode()           {}
func (*CreateDatabase) stmtNode()          {}
func (*CreateModel) stmtNode()             {}
func (*CreateConnection) stmtNode()        {}
func (*CreateMaterializedTable) stmtNode() {}
func (*Drop) stmtNode()                    {}
func (*Alter) stmtNode()                   {}
