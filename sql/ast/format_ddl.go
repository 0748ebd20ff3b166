package ast

// definition writes CREATE, DROP and ALTER statements.
func (p *printer) definition(s Statement) {
	switch s := s.(type) {
	case *CreateTable:
		p.createTable(s)
	case *CreateMaterializedTable:
		p.createMaterializedTable(s)
	case *CreateView:
		p.createView(s)
	case *CreateFunction:
		p.create("FUNCTION ", false, s.Temporary, s.System, s.IfNotExists)
		p.name(s.Name)
		p.functionBody(s.Class, s.Language, s.Using)
		p.with(s.Options)
	case *CreateCatalog:
		p.create("CATALOG ", false, false, false, s.IfNotExists)
		p.ident(s.Name)
		p.comment(s.Comment)
		p.with(s.Options)
	case *CreateDatabase:
		p.create("DATABASE ", false, false, false, s.IfNotExists)
		p.name(s.Name)
		p.comment(s.Comment)
		p.with(s.Options)
	case *CreateModel:
		p.createModel(s)
	case *CreateConnection:
		p.create("CONNECTION ", false, s.Temporary, s.System, s.IfNotExists)
		p.name(s.Name)
		p.comment(s.Comment)
		p.with(s.Options)
	case *Drop:
		p.w("DROP ")
		p.opt(s.Temporary, "TEMPORARY ")
		p.opt(s.System, "SYSTEM ")
		p.w(string(s.Kind), " ")
		p.opt(s.IfExists, "IF EXISTS ")
		p.name(s.Name)
		p.opt(s.Behavior != "", " "+s.Behavior)
	case *Alter:
		p.w("ALTER ")
		p.opt(s.Temporary, "TEMPORARY ")
		p.opt(s.System, "SYSTEM ")
		p.w(string(s.Kind), " ")
		p.opt(s.IfExists, "IF EXISTS ")
		p.name(s.Name)
		p.partition(s.Partition)
		p.w(" ")
		p.action(s.Action)
	default:
		panic("BUG: ast.Format: statement without a text form")
	}
}

func (p *printer) create(kind string, orReplace, temporary, system, ifNotExists bool) {
	p.w("CREATE ")
	p.opt(orReplace, "OR REPLACE ")
	p.opt(temporary, "TEMPORARY ")
	p.opt(system, "SYSTEM ")
	p.w(kind)
	p.opt(ifNotExists, "IF NOT EXISTS ")
}

func (p *printer) createTable(s *CreateTable) {
	if s.Replace {
		p.w("REPLACE TABLE ")
		p.opt(s.IfNotExists, "IF NOT EXISTS ")
	} else {
		p.create("TABLE ", s.OrReplace, s.Temporary, false, s.IfNotExists)
	}
	p.name(s.Name)
	p.schemaBlock(s.Schema, s.ColumnNames)
	p.tableClauses(s.Comment, s.Distribution, s.PartitionedBy, s.Options)
	if s.Like != nil {
		p.w("\nLIKE ")
		p.name(s.Like.Table)
		if len(s.Like.Options) > 0 {
			p.w(" (")
			p.join(len(s.Like.Options), " ", func(i int) {
				p.w(s.Like.Options[i].Merge, " ", s.Like.Options[i].Feature)
			})
			p.w(")")
		}
	}
	p.asQuery(s.As)
}

func (p *printer) asQuery(q *Query) {
	if q != nil {
		p.w("\nAS ")
		p.query(q)
	}
}

func (p *printer) createMaterializedTable(s *CreateMaterializedTable) {
	p.w("CREATE ")
	p.opt(s.OrAlter, "OR ALTER ")
	p.opt(s.OrReplace, "OR REPLACE ")
	p.w("MATERIALIZED TABLE ")
	p.opt(s.IfNotExists, "IF NOT EXISTS ")
	p.name(s.Name)
	p.schemaBlock(s.Schema, s.ColumnNames)
	p.tableClauses(s.Comment, s.Distribution, s.PartitionedBy, s.Options)
	p.clause("\nFRESHNESS = ", s.Freshness)
	p.opt(s.RefreshMode != "", "\nREFRESH_MODE = "+s.RefreshMode)
	p.asQuery(s.As)
}

func (p *printer) tableClauses(comment *StringLit, d *Distribution, by []Ident, o []*Option) {
	if comment != nil {
		p.w("\nCOMMENT ")
		p.str(comment)
	}
	if d != nil {
		p.w("\nDISTRIBUTED")
		p.distribution(d)
	}
	if by != nil {
		p.w("\nPARTITIONED BY ")
		p.idents(by)
	}
	if o != nil {
		p.w("\nWITH (")
		p.join(len(o), ",", func(i int) {
			p.w("\n  ")
			p.option(o[i])
		})
		p.w("\n)")
	}
}

func (p *printer) distribution(d *Distribution) {
	if d.Columns != nil {
		p.w(" BY ", d.Kind)
		p.idents(d.Columns)
	}
	if d.Buckets > 0 || d.Columns == nil {
		p.w(" INTO ")
		p.num(d.Buckets)
		p.w(" BUCKETS")
	}
}

// schemaBlock writes the list of a table on lines of its own.
func (p *printer) schemaBlock(s *TableSchema, names []Ident) {
	if s == nil && names == nil {
		return
	}
	p.w(" (")
	sep := "\n  "
	for _, n := range names {
		p.w(sep)
		sep = ",\n  "
		p.ident(n)
	}
	if s != nil {
		p.schema(s, sep, ",\n  ")
	}
	p.w("\n)")
}

// schema writes columns, watermark and constraints, each after a separator.
func (p *printer) schema(s *TableSchema, first, sep string) {
	next := func() {
		p.w(first)
		first = sep
	}
	for _, c := range s.Columns {
		next()
		p.column(c)
	}
	if s.Watermark != nil {
		next()
		p.watermark(s.Watermark)
	}
	for _, c := range s.Constraints {
		next()
		p.constraint(c)
	}
}

func (p *printer) column(c *Column) {
	p.ident(c.Name)
	if c.Kind == ComputedColumn {
		p.w(" AS ")
		p.expr(c.Expr, 0)
	} else {
		p.w(" ")
		p.typ(c.Type)
	}
	if c.Kind == MetadataColumn {
		p.w(" METADATA")
		if c.MetadataKey != nil {
			p.w(" FROM ")
			p.str(c.MetadataKey)
		}
		p.opt(c.Virtual, " VIRTUAL")
	}
	if c.Constraint != nil {
		p.w(" ")
		p.constraint(c.Constraint)
	}
	p.clause(" DEFAULT ", c.Default)
	p.comment(c.Comment)
	if c.Position != nil {
		if c.Position.First {
			p.w(" FIRST")
		} else {
			p.w(" AFTER ")
			p.name(c.Position.After)
		}
	}
}

func (p *printer) watermark(w *Watermark) {
	p.w("WATERMARK FOR ")
	p.name(w.Column)
	p.w(" AS ")
	p.expr(w.Expr, 0)
}

func (p *printer) constraint(c *Constraint) {
	if c.Name != nil {
		p.w("CONSTRAINT ")
		p.ident(*c.Name)
		p.w(" ")
	}
	p.w(c.Kind.String())
	if len(c.Columns) > 0 {
		p.w(" ")
		p.idents(c.Columns)
	}
	p.opt(c.Enforcement != EnforcementUnset, " "+c.Enforcement.String())
}

func (p *printer) createView(s *CreateView) {
	p.create("VIEW ", s.OrReplace, s.Temporary, false, s.IfNotExists)
	p.name(s.Name)
	if len(s.Columns) > 0 {
		p.w(" (")
		p.join(len(s.Columns), ", ", func(i int) {
			p.ident(s.Columns[i].Name)
			p.comment(s.Columns[i].Comment)
		})
		p.w(")")
	}
	if s.Comment != nil {
		p.w("\nCOMMENT ")
		p.str(s.Comment)
	}
	p.asQuery(s.Query)
}

func (p *printer) createModel(s *CreateModel) {
	p.create("MODEL ", s.OrReplace, s.Temporary, false, s.IfNotExists)
	p.name(s.Name)
	columns := func(word string, list []*Column) {
		if list != nil {
			p.w("\n", word, " (")
			p.join(len(list), ", ", func(i int) { p.column(list[i]) })
			p.w(")")
		}
	}
	columns("INPUT", s.Input)
	columns("OUTPUT", s.Output)
	p.tableClauses(s.Comment, nil, nil, s.Options)
	p.asQuery(s.As)
}

func (p *printer) functionBody(class *StringLit, language string, using []*Resource) {
	p.w(" AS ")
	p.str(class)
	p.opt(language != "", " LANGUAGE "+language)
	p.opt(len(using) > 0, " USING ")
	p.join(len(using), ", ", func(i int) {
		p.w(using[i].Kind, " ")
		p.str(using[i].Path)
	})
}
