package sql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// aboutTables begin the keys that go on with the name of a table.
var aboutTables = []string{"tidemark.emit.", "tidemark.table.", "tidemark.completeness.", "tidemark.override."}

// Unheeded says which keys that were set nobody goes by: those about tables that do not exist, and, where no SET has
// warned of them, those that look like another key. It is for the end of a script, as a table may be defined behind the SET.
func (s *Session) Unheeded() []string {
	var names []string
	for _, db := range s.cat.Databases() {
		names = append(names, s.cat.Objects(db)...)
	}
	var out []string
	for key := range s.cfg.All() {
		if near := catalog.Misspelt(key); near != "" && !s.warned[key] {
			out = append(out, fmt.Sprintf("'%s' is set, and no such key is known; did you mean '%s'?", key, near))
		}
		for _, p := range aboutTables {
			rest, ok := strings.CutPrefix(key, p)
			if !ok || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(rest, n+".") }) {
				continue
			}
			name, _, _ := strings.Cut(rest, ".")
			msg := fmt.Sprintf("'%s' is set, and there is no table %s", key, name)
			bare := strings.Trim(name, "`")
			same := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, bare) })
			if near := sqlerr.Nearest(bare, names); same >= 0 {
				msg += "; write the name as it is, without backquotes: " + names[same]
			} else if len(near) > 0 {
				msg += "; did you mean " + strings.Join(near, " or ") + "?"
			}
			out = append(out, msg)
		}
	}
	slices.Sort(out)
	return out
}
