// Package explain shows how a job will run: the query as bound and as optimised, and the plan
// with changelog modes, distribution, time, state and guarantees, as text of 100 columns or as
// JSON. Check lists what Flink would treat otherwise.
//
// Plain calls on plans and trees, safe for concurrent use.
//
// Stability: internal use.
package explain

import (
	"fmt"
	"strings"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/physical"
)

// width is the number of columns that lines are kept to.
const width = 100

// Text explains the plan p of the given sinks in three sections, as Flink's EXPLAIN names them.
func Text(sinks []*logical.Sink, p *plan.Plan, cfg *catalog.Config) (string, error) {
	var b strings.Builder
	b.WriteString("== Abstract Syntax Tree ==\n")
	for _, s := range sinks {
		logicalTree(&b, s, "", "")
		b.WriteString("\n")
	}
	roots, err := physical.Optimized(sinks, cfg)
	if err != nil {
		return "", err
	}
	b.WriteString("== Optimized Logical Plan ==\n")
	for i, s := range sinks {
		o := *s
		o.Input = roots[i]
		logicalTree(&b, &o, "", "")
		b.WriteString("\n")
	}
	b.WriteString("== Physical Execution Plan ==\n")
	b.WriteString(Physical(p))
	return b.String(), nil
}

// logicalTree prints n and what is below it.
func logicalTree(b *strings.Builder, n logical.Node, head, rest string) {
	wrap(b, head, rest+"     ", logicalLine(n))
	ins := n.Inputs()
	for i, in := range ins {
		r := rest + "   "
		if i+1 < len(ins) {
			r = rest + "|  "
		}
		logicalTree(b, in, rest+"+- ", r)
	}
}

// wrap writes text with prefix head, and what does not fit into the line below prefix rest. It
// breaks at spaces outside of quotes.
func wrap(b *strings.Builder, head, rest, text string) {
	room := max(width-len(head), 40)
	for {
		if len(text) <= room {
			b.WriteString(head + text + "\n")
			return
		}
		cut := breakAt(text, room)
		if cut <= 0 || cut >= len(text) {
			b.WriteString(head + text + "\n")
			return
		}
		b.WriteString(head + text[:cut] + "\n")
		text, head = text[cut+1:], rest
		room = max(width-len(head), 40)
	}
}

// breakAt finds the last space within room, or else the first one after it, that is not inside a
// quoted string.
func breakAt(text string, room int) int {
	last, quoted := -1, false
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\'':
			quoted = quoted != !apostrophe(text, i)
		case text[i] == ' ' && !quoted:
			if i > room && last >= 0 {
				return last
			}
			last = i
			if i > room {
				return i
			}
		}
	}
	return last
}

// apostrophe reports whether the quote at i is one within a word, as in "job's", and not that of a
// string, which may follow a single letter: x'00'.
func apostrophe(text string, i int) bool {
	letter := func(k int) bool { return k >= 0 && k < len(text) && text[k] >= 'a' && text[k] <= 'z' }
	return letter(i-2) && letter(i-1) && letter(i+1)
}

// duration prints ms in the largest units that are whole: 1 h 30 min.
func duration(ms int64) string {
	if ms < 0 {
		return "-" + duration(-ms)
	}
	var out []string
	for _, u := range [...]struct {
		ms   int64
		name string
	}{{86400000, "d"}, {3600000, "h"}, {60000, "min"}, {1000, "s"}, {1, "ms"}} {
		if n := ms / u.ms; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, u.name))
			ms %= u.ms
		}
	}
	if out == nil {
		return "0 ms"
	}
	return strings.Join(out, " ")
}
