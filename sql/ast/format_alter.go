package ast

func (p *printer) action(a AlterAction) {
	switch a := a.(type) {
	case *AlterRename:
		p.w("RENAME TO ")
		p.name(a.To)
	case *AlterRenameColumn:
		p.w("RENAME ")
		p.name(a.From)
		p.w(" TO ")
		p.ident(a.To)
	case *AlterSet:
		p.w("SET ")
		p.options(a.Options)
	case *AlterReset:
		p.w("RESET (")
		p.join(len(a.Keys), ", ", func(i int) { p.str(a.Keys[i]) })
		p.w(")")
	case *AlterComment:
		p.w("COMMENT ")
		p.str(a.Comment)
	case *AlterAdd:
		p.schemaChange("ADD", a.Schema, a.Distribution)
	case *AlterModify:
		p.schemaChange("MODIFY", a.Schema, a.Distribution)
	case *AlterAs:
		p.w("AS ")
		p.query(a.Query)
	case *AlterFunction:
		p.functionBody(a.Class, a.Language, a.Using)
	case *AlterSuspend:
		p.w("SUSPEND")
	case *AlterResume:
		p.w("RESUME")
		p.with(a.Options)
	case *AlterRefresh:
		p.w("REFRESH")
		p.partition(a.Partition)
	case *AlterFreshness:
		p.w("SET FRESHNESS = ")
		p.expr(a.Freshness, 0)
	case *AlterRefreshMode:
		p.opt(a.Mode == "", "RESET REFRESH_MODE")
		p.opt(a.Mode != "", "SET REFRESH_MODE = "+a.Mode)
	default:
		p.dropAction(a)
	}
}

func (p *printer) schemaChange(word string, s *TableSchema, d *Distribution) {
	p.w(word, " ")
	if d != nil {
		p.w("DISTRIBUTION")
		p.distribution(d)
		return
	}
	p.w("(")
	p.schema(s, "", ", ")
	p.w(")")
}

func (p *printer) dropAction(a AlterAction) {
	switch a := a.(type) {
	case *AlterDropColumns:
		p.w("DROP ")
		p.names(a.Columns)
	case *AlterDropConstraint:
		if a.Name == nil {
			p.w("DROP PRIMARY KEY")
			return
		}
		p.w("DROP CONSTRAINT ")
		p.ident(*a.Name)
	case *AlterDropWatermark:
		p.w("DROP WATERMARK")
	case *AlterDropDistribution:
		p.w("DROP DISTRIBUTION")
	case *AlterAddPartitions:
		p.w("ADD")
		p.opt(a.IfNotExists, " IF NOT EXISTS")
		for _, s := range a.Partitions {
			p.partition(s.Values)
			p.with(s.Options)
		}
	case *AlterDropPartitions:
		p.w("DROP")
		p.opt(a.IfExists, " IF EXISTS")
		p.join(len(a.Partitions), ",", func(i int) { p.partition(a.Partitions[i].Values) })
	default:
		panic("BUG: ast.Format: ALTER action without a text form")
	}
}
