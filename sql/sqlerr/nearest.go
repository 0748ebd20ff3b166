package sqlerr

import (
	"cmp"
	"slices"
	"strings"
)

// nearestMax is how many suggestions Nearest makes.
const nearestMax = 3

// Nearest returns the candidates that name may be a slip for, best first, at
// most three. Case does not count; a transposition counts as one edit. A longer
// candidate that contains the name is near too.
func Nearest(name string, candidates []string) []string {
	type scored struct {
		text  string
		score int
	}
	want := []rune(strings.ToLower(name))
	limit := len(want)/3 + 1
	if len(want) <= 2 {
		limit = 1
	}
	var found []scored
	seen := map[string]bool{}
	for _, c := range candidates {
		if seen[c] {
			continue
		}
		seen[c] = true
		have := strings.ToLower(c)
		score := distance(want, []rune(have), limit)
		if score > limit {
			if len(want) < 3 || !strings.Contains(have, string(want)) {
				continue
			}
			score = limit + 1
		}
		// A candidate of one or two characters is near to everything short.
		if score > 0 && score >= len(want) {
			continue
		}
		found = append(found, scored{c, score})
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(a.score, b.score) })
	if len(found) > nearestMax {
		found = found[:nearestMax]
	}
	out := make([]string, len(found))
	for i, f := range found {
		out[i] = f.text
	}
	return out
}

// DidYouMean returns `did you mean X?` or `did you mean X, Y or Z?` with the
// candidates nearest to name, or "" when none is near.
func DidYouMean(name string, candidates []string) string {
	near := Nearest(name, candidates)
	switch n := len(near); n {
	case 0:
		return ""
	case 1:
		return "did you mean " + near[0] + "?"
	default:
		return "did you mean " + strings.Join(near[:n-1], ", ") + " or " + near[n-1] + "?"
	}
}

// distance is the optimal string alignment distance, or limit+1 when it is
// above limit.
func distance(a, b []rune, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	before := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return min(prev[len(b)], limit+1)
}
