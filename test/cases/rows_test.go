package cases

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// row is an object of JSON; numbers are float64, as precise as the comparison is.
type row = map[string]any

// readRows reads the JSON lines of a file, or of the visible files below a folder. What is not
// there holds no rows.
func readRows(path string) ([]row, error) {
	var rows []row
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && p == path:
			return nil
		case err != nil:
			return err
		case p != path && strings.ContainsRune("._", rune(d.Name()[0])):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		raw, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		for {
			var r row
			if err := dec.Decode(&r); err == io.EOF {
				return nil
			} else if err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
			rows = append(rows, r)
		}
	})
	return rows, err
}

var (
	outTable = regexp.MustCompile("(?is)CREATE\\s+TABLE\\s+`out`\\s*\\((.*?)\\)\\s*WITH")
	keyOf    = regexp.MustCompile(`(?i)PRIMARY\s+KEY\s*\(([^)]*)\)`)
)

// primaryKey finds the primary key that the script declares for its sink.
func primaryKey(sql string) []string {
	table := outTable.FindStringSubmatch(sql)
	if table == nil {
		return nil
	}
	key := keyOf.FindStringSubmatch(table[1] + ")")
	if key == nil {
		return nil
	}
	cols := strings.Split(key[1], ",")
	for i, c := range cols {
		cols[i] = strings.Trim(c, " `\n\t")
	}
	return cols
}

// change is a row that came or went.
type change struct {
	add bool
	row row
}

// foldChanges turns Debezium's envelopes into the rows that remain: as a bag of rows, or where that
// does not come out even, by primary key (a sink that has one needs no row before).
func foldChanges(envelopes []row, key []string) ([]row, error) {
	var changes []change
	for _, e := range envelopes {
		before, hasBefore := e["before"].(row)
		after, hasAfter := e["after"].(row)
		if hasBefore {
			changes = append(changes, change{false, before})
		}
		if hasAfter {
			changes = append(changes, change{true, after})
		}
		if !hasBefore && !hasAfter {
			return nil, fmt.Errorf("an envelope without a row: %v", e)
		}
	}
	bag := map[string]int{}
	kept := map[string]row{}
	for _, c := range changes {
		text := canonical(c.row)
		kept[text] = c.row
		if c.add {
			bag[text]++
		} else {
			bag[text]--
		}
	}
	var rows []row
	for text, n := range bag {
		if n < 0 {
			if key != nil {
				return foldByKey(changes, key), nil
			}
			return nil, fmt.Errorf("a retraction without its row: %s", text)
		}
		for range n {
			rows = append(rows, kept[text])
		}
	}
	return rows, nil
}

func foldByKey(changes []change, key []string) []row {
	state := map[string]row{}
	for _, c := range changes {
		values := make([]any, len(key))
		for i, k := range key {
			values[i] = c.row[k]
		}
		k := canonical(values)
		if c.add {
			state[k] = c.row
		} else {
			delete(state, k)
		}
	}
	var rows []row
	for _, r := range state {
		rows = append(rows, r)
	}
	return rows
}

var (
	timestamp = regexp.MustCompile(`^(\d{4,}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(\.\d+)?(?:Z|\+00:00)?$`)
	timeOfDay = regexp.MustCompile(`^(\d\d:\d\d:\d\d)(\.\d+)?Z?$`)
)

// normal brings a value into the form in which equal ones are the same: numbers to twelve digits,
// points in time without zeros at the end, fields that are null left out.
func normal(v any) any {
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'g', 12, 64)
	case string:
		if m := timestamp.FindStringSubmatch(v); m != nil {
			if m[3] == "" {
				m[3] = ":00"
			}
			return m[1] + " " + m[2] + m[3] + strings.TrimRight(strings.TrimRight(m[4], "0"), ".")
		}
		if m := timeOfDay.FindStringSubmatch(v); m != nil {
			return m[1] + strings.TrimRight(strings.TrimRight(m[2], "0"), ".")
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = normal(e)
		}
		return out
	case row:
		out := row{}
		for k, e := range v {
			if e != nil {
				out[k] = normal(e)
			}
		}
		return out
	}
	return v
}

// canonical is the text of a value that equal ones share.
func canonical(v any) string {
	text, err := json.Marshal(normal(v))
	if err != nil {
		panic("BUG: " + err.Error()) // it came from JSON
	}
	return string(text)
}

// compareRows compares two bags of rows.
func compareRows(want, got []row) error {
	bag := map[string]int{}
	for _, r := range want {
		bag[canonical(r)]++
	}
	for _, r := range got {
		bag[canonical(r)]--
	}
	var missing, extra []string
	for text, n := range bag {
		for range n {
			missing = append(missing, text)
		}
		for range -n {
			extra = append(extra, text)
		}
	}
	if len(missing)+len(extra) == 0 {
		return nil
	}
	first := func(s []string) string { return strings.Join(s[:min(2, len(s))], " ") }
	return fmt.Errorf("%d rows missing: %s; %d too many: %s", len(missing), first(missing), len(extra), first(extra))
}

func TestCompareRows(t *testing.T) {
	parse := func(lines string) []row {
		dec := json.NewDecoder(strings.NewReader(lines))
		var rows []row
		for {
			var r row
			if err := dec.Decode(&r); err == io.EOF {
				return rows
			} else if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, r)
		}
	}
	same := func(want, got string, equal bool) {
		t.Helper()
		if err := compareRows(parse(want), parse(got)); (err == nil) != equal {
			t.Errorf("%s and %s: %v", want, got, err)
		}
	}
	same(`{"a":1}{"a":2}`, `{"a":2}{"a":1.0}`, true)
	same(`{"a":1}{"a":1}`, `{"a":1}`, false)
	same(`{"a":1,"b":null}`, `{"a":1}`, true)
	same(`{"a":"2024-01-01 00:00:00"}`, `{"a":"2024-01-01T00:00:00.000Z"}`, true)
	same(`{"a":"2024-01-01 00:00:00"}`, `{"a":"2024-01-01 00:00:00.001"}`, false)
	same(`{"a":[1,{"b":2}]}`, `{"a":[1,{"b":3}]}`, false)
	fold := func(envelopes string, key []string, want string) {
		t.Helper()
		got, err := foldChanges(parse(envelopes), key)
		if err == nil {
			err = compareRows(parse(want), got)
		}
		if (err == nil) != (want != "refused") {
			t.Errorf("%s: %v", envelopes, err)
		}
	}
	fold(`{"op":"c","after":{"a":1}}{"op":"u","before":{"a":1},"after":{"a":2}}`, nil, `{"a":2}`)
	fold(`{"op":"c","after":{"a":1}}{"op":"d","before":{"a":1}}`, nil, ``)
	fold(`{"op":"c","after":{"k":1,"a":1}}{"op":"d","before":{"k":1}}`, []string{"k"}, ``)
	if _, err := foldChanges(parse(`{"op":"d","before":{"a":1}}`), nil); err == nil {
		t.Error("a retraction without its row is accepted")
	}
}
