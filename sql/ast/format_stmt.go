package ast

import "strings"

func (p *printer) statement(s Statement) {
	switch s := s.(type) {
	case *QueryStmt:
		p.query(s.Query)
	case *Insert:
		p.insert(s)
	case *StatementSet:
		p.w("EXECUTE STATEMENT SET BEGIN\n")
		for _, x := range s.Statements {
			p.statement(x)
			p.w(";\n")
		}
		p.w("END")
	case *Explain:
		p.w("EXPLAIN ")
		p.opt(len(s.Details) > 0, strings.Join(s.Details, ", ")+" ")
		p.statement(s.Statement)
	case *Update:
		p.update(s)
	case *Delete:
		p.w("DELETE FROM ")
		p.name(s.Table)
		p.asAlias(s.Alias)
		p.clause(" WHERE ", s.Where)
	case *Truncate:
		p.w("TRUNCATE TABLE ")
		p.name(s.Table)
	case *CompilePlan:
		p.w("COMPILE ")
		p.opt(s.Execute, "AND EXECUTE ")
		p.w("PLAN ")
		p.str(s.File)
		p.opt(s.IfNotExists, " IF NOT EXISTS")
		p.w(" FOR ")
		p.statement(s.Statement)
	case *ExecutePlan:
		p.w("EXECUTE PLAN ")
		p.str(s.File)
	case *Analyze:
		p.analyze(s)
	case *Command:
		p.w(s.Name)
	default:
		p.sessionStatement(s)
	}
}

func (p *printer) sessionStatement(s Statement) {
	switch s := s.(type) {
	case *Describe:
		p.describe(s)
	case *Show:
		p.show(s)
	case *Use:
		p.use(s)
	case *Set:
		p.w("SET")
		p.opt(s.Key != "", " "+QuoteString(s.Key)+" = "+QuoteString(s.Value))
	case *Reset:
		p.w("RESET")
		p.opt(s.Key != "", " "+QuoteString(s.Key))
	case *LoadModule:
		p.w("LOAD MODULE ")
		p.ident(s.Name)
		p.with(s.Options)
	case *UnloadModule:
		p.w("UNLOAD MODULE ")
		p.ident(s.Name)
	case *Jar:
		p.w(map[bool]string{true: "REMOVE JAR ", false: "ADD JAR "}[s.Remove])
		p.str(s.Path)
	case *Call:
		p.w("CALL ")
		p.call(s.Call)
	case *StopJob:
		p.w("STOP JOB ")
		p.str(s.ID)
		p.opt(s.Savepoint, " WITH SAVEPOINT")
		p.opt(s.Drain, " WITH DRAIN")
	default:
		p.definition(s)
	}
}

func (p *printer) insert(s *Insert) {
	p.w(map[bool]string{true: "UPSERT INTO ", false: "INSERT "}[s.Upsert])
	if !s.Upsert {
		p.w(map[bool]string{true: "OVERWRITE ", false: "INTO "}[s.Overwrite])
	}
	p.name(s.Table)
	p.hints(s.Hints)
	p.partition(s.Partition)
	if len(s.Columns) > 0 {
		p.w(" ")
		p.names(s.Columns)
	}
	p.w(" ")
	p.query(s.Query)
	p.opt(s.OnConflict != "", " ON CONFLICT "+s.OnConflict)
}

func (p *printer) partition(list []*PartitionValue) {
	if list == nil {
		return
	}
	p.w(" PARTITION (")
	p.join(len(list), ", ", func(i int) {
		p.ident(list[i].Column)
		p.clause(" = ", list[i].Value)
	})
	p.w(")")
}

func (p *printer) asAlias(a *Ident) {
	if a != nil {
		p.w(" AS ")
		p.ident(*a)
	}
}

func (p *printer) update(s *Update) {
	p.w("UPDATE ")
	p.name(s.Table)
	p.asAlias(s.Alias)
	p.w(" SET ")
	p.join(len(s.Sets), ", ", func(i int) {
		p.name(s.Sets[i].Column)
		p.w(" = ")
		p.expr(s.Sets[i].Value, 0)
	})
	p.clause(" WHERE ", s.Where)
}

func (p *printer) analyze(s *Analyze) {
	p.w("ANALYZE TABLE ")
	p.name(s.Table)
	p.partition(s.Partition)
	p.w(" COMPUTE STATISTICS")
	p.opt(s.AllColumns, " FOR ALL COLUMNS")
	if len(s.Columns) > 0 {
		p.w(" FOR COLUMNS ")
		p.join(len(s.Columns), ", ", func(i int) { p.ident(s.Columns[i]) })
	}
}

func (p *printer) describe(s *Describe) {
	p.w("DESCRIBE ")
	p.opt(s.Kind != ObjTable, string(s.Kind)+" ")
	p.opt(s.Extended, "EXTENDED ")
	if s.Job != nil {
		p.str(s.Job)
		return
	}
	p.name(s.Name)
}

func (p *printer) show(s *Show) {
	p.w("SHOW ", s.What)
	if s.Name != nil {
		from := !strings.HasPrefix(s.What, "CREATE") && s.What != "PARTITIONS"
		p.w(map[bool]string{true: " FROM ", false: " "}[from])
		p.name(s.Name)
	}
	p.partition(s.Partition)
	if s.Like != nil {
		p.opt(s.Negated, " NOT")
		p.w(map[bool]string{true: " ILIKE ", false: " LIKE "}[s.ILike])
		p.str(s.Like)
	}
}

func (p *printer) use(s *Use) {
	p.w("USE ")
	if s.Name != nil {
		p.opt(s.Kind == ObjCatalog, "CATALOG ")
		p.name(s.Name)
		return
	}
	p.w("MODULES ")
	p.join(len(s.Modules), ", ", func(i int) { p.ident(s.Modules[i]) })
}
