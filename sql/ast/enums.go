package ast

// Each of these returns the SQL words of its value, for printing and messages.

// String returns INTEGER, DECIMAL or APPROXIMATE.
func (k NumberKind) String() string { return [...]string{"INTEGER", "DECIMAL", "APPROXIMATE"}[k] }

// String returns the words before the string of the literal.
func (k TemporalKind) String() string {
	return [...]string{"DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH LOCAL TIME ZONE"}[k]
}

// String returns the operator.
func (k LikeKind) String() string { return [...]string{"LIKE", "SIMILAR TO", "RLIKE", "ILIKE"}[k] }

// String returns the words behind IS [NOT].
func (k IsTestKind) String() string {
	return [...]string{"NULL", "TRUE", "FALSE", "UNKNOWN", "JSON", "JSON VALUE", "JSON SCALAR", "JSON ARRAY",
		"JSON OBJECT", "A SET", "EMPTY"}[k]
}

// String returns the words behind a call.
func (n NullTreatment) String() string { return [...]string{"", "RESPECT NULLS", "IGNORE NULLS"}[n] }

// String returns the operator, without ALL.
func (k SetOpKind) String() string { return [...]string{"UNION", "INTERSECT", "EXCEPT"}[k] }

// String returns the words behind an ORDER BY item.
func (n NullsOrder) String() string { return [...]string{"", "NULLS FIRST", "NULLS LAST"}[n] }

// String returns the words before the parenthesis.
func (k GroupKind) String() string {
	return [...]string{"", "", "GROUPING SETS", "ROLLUP", "CUBE"}[k]
}

// String returns the words of the bound, without its offset.
func (k BoundKind) String() string {
	return [...]string{"CURRENT ROW", "UNBOUNDED PRECEDING", "UNBOUNDED FOLLOWING", "PRECEDING", "FOLLOWING"}[k]
}

// String returns the words of the join.
func (k JoinKind) String() string {
	return [...]string{"JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ","}[k]
}

// String returns the words behind AFTER MATCH SKIP, without the variable.
func (k SkipKind) String() string {
	return [...]string{"PAST LAST ROW", "TO NEXT ROW", "TO FIRST", "TO LAST"}[k]
}

// String returns the words behind a type.
func (n Nullability) String() string { return [...]string{"", "NULL", "NOT NULL"}[n] }

// String names the kind in lower case, as messages do.
func (k ColumnKind) String() string { return [...]string{"physical", "computed", "metadata"}[k] }

// String returns PRIMARY KEY or UNIQUE.
func (k ConstraintKind) String() string { return [...]string{"PRIMARY KEY", "UNIQUE"}[k] }

// String returns the words behind a constraint.
func (e Enforcement) String() string { return [...]string{"", "ENFORCED", "NOT ENFORCED"}[e] }
