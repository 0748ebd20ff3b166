package dashboard

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The kinds of tiles.
const (
	Number = "number"
	Series = "series"
	Bars   = "bars"
	Table  = "table"
)

const (
	maxTiles   = 60
	maxLimit   = 1000 // rows, bars or lines of a tile
	maxColumns = 4    // of the page's grid
	maxText    = 200  // bytes of a title or a value
)

// DefaultRefresh is how often the tables are looked at where the board does not say.
const DefaultRefresh = 2 * time.Second

// Board is a page of tiles, as its YAML file defines it.
type Board struct {
	Title string `yaml:"title,omitempty" json:"title"`
	// Script is the SQL file whose tables of results are shown, relative to the YAML file.
	Script  string `yaml:"script,omitempty" json:"script,omitempty"`
	Refresh string `yaml:"refresh,omitempty" json:"refresh,omitempty"`
	Tiles   []Tile `yaml:"tiles" json:"tiles"`

	doc *yaml.Node // the file that it was read from, nil where there is none
}

// Tile is one tile of a board.
type Tile struct {
	// ID names the tile within one version of the board.
	ID    string `yaml:"-" json:"id"`
	Title string `yaml:"title,omitempty" json:"title,omitempty"`
	Kind  string `yaml:"kind" json:"kind"`
	// Table is the table of results; "" where the script has only one.
	Table string `yaml:"table,omitempty" json:"table,omitempty"`
	// From is "target" (what is sealed, the default) or "memory" (what the running job has made).
	From string `yaml:"from,omitempty" json:"from,omitempty"`
	// Value is a column, or an aggregate of one such as sum(departures), over the rows that fall together.
	Value string `yaml:"value,omitempty" json:"value,omitempty"`
	// By are the columns that tell lines or bars apart.
	By Names `yaml:"by,omitempty" json:"by,omitempty"`
	// Columns are those of a table.
	Columns Names `yaml:"columns,omitempty" json:"columns,omitempty"`
	// Where are columns and the values that they must have.
	Where map[string]string `yaml:"where,omitempty" json:"where,omitempty"`
	// Last is how much of the past is shown, from the newest window back: a number of windows, a time such
	// as 48h or 7d, or all.
	Last string `yaml:"last,omitempty" json:"last,omitempty"`
	// Order are the columns that rows of a table are sorted by, "-" before those that descend.
	Order Names `yaml:"order,omitempty" json:"order,omitempty"`
	// Limit is how many rows, bars or lines there are at most.
	Limit int `yaml:"limit,omitempty" json:"limit,omitempty"`
	// Generation is the one to show whatever the pointer says.
	Generation string `yaml:"generation,omitempty" json:"generation,omitempty"`
	// Width is how many of the page's four columns the tile takes.
	Width int `yaml:"width,omitempty" json:"width,omitempty"`

	node *yaml.Node // in the board's document; carries comments
}

// Names is a list that may be written as a single name.
type Names []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (n *Names) UnmarshalYAML(v *yaml.Node) error {
	var one string
	if v.Kind == yaml.ScalarNode {
		if err := v.Decode(&one); err != nil {
			return err
		}
		*n = Names{one}
		return nil
	}
	return v.Decode((*[]string)(n))
}

// MarshalYAML implements yaml.Marshaler.
func (n Names) MarshalYAML() (any, error) {
	if len(n) == 1 {
		return n[0], nil
	}
	var v yaml.Node
	if err := v.Encode([]string(n)); err != nil {
		return nil, err
	}
	v.Style = yaml.FlowStyle
	return &v, nil
}

var (
	boardKeys = []string{"title", "script", "refresh", "tiles"}
	tileKeys  = []string{"title", "kind", "table", "from", "value", "by", "columns", "where", "last", "order", "limit", "generation", "width"}
)

// ParseBoard reads the YAML of a board. Errors name the line; name is that of the file.
func ParseBoard(name string, text []byte) (*Board, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, yamlError(name, err)
	}
	b := &Board{}
	if len(doc.Content) == 0 { // an empty file
		return b, nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: a board is a list of keys such as title and tiles", name, top.Line)
	}
	if err := known(name, top, "a board", boardKeys); err != nil {
		return nil, err
	}
	list := child(top, "tiles")
	if list != nil && list.Kind != yaml.SequenceNode && list.Tag != "!!null" {
		return nil, fmt.Errorf("%s:%d: tiles is a list; begin each tile with '-'", name, list.Line)
	}
	if list != nil {
		for _, n := range list.Content {
			if n.Kind != yaml.MappingNode {
				return nil, fmt.Errorf("%s:%d: a tile is a list of keys such as kind and value", name, n.Line)
			}
			if err := known(name, n, "a tile", tileKeys); err != nil {
				return nil, err
			}
			if where := child(n, "where"); where != nil {
				for _, v := range where.Content {
					if v.Tag == "!!null" {
						return nil, fmt.Errorf("%s:%d: where compares with texts: rows with NULL cannot be asked for; write 'null' in quotes for the text", name, v.Line)
					}
				}
			}
		}
	}
	if err := top.Decode(b); err != nil {
		return nil, yamlError(name, err)
	}
	if _, err := refreshOf(b.Refresh); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, child(top, "refresh").Line, err)
	}
	b.doc = &doc
	for i := range b.Tiles {
		n := list.Content[i]
		b.Tiles[i].node = n
		if err := b.Tiles[i].check(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n.Line, err)
		}
	}
	if len(b.Tiles) > maxTiles {
		return nil, fmt.Errorf("%s:%d: a board has at most %d tiles, this has %d", name, list.Line, maxTiles, len(b.Tiles))
	}
	b.number()
	return b, nil
}

func yamlError(name string, err error) error {
	text := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n ", "")
	text = strings.TrimPrefix(text, "unmarshal errors: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if line, what, ok := strings.Cut(rest, ": "); ok {
			return fmt.Errorf("%s:%s: %s", name, line, what)
		}
	}
	return fmt.Errorf("%s: %s", name, text)
}

// known refuses keys that are not in list.
func known(name string, n *yaml.Node, what string, list []string) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; k.Kind != yaml.ScalarNode || !slices.Contains(list, k.Value) {
			return fmt.Errorf("%s:%d: %s has no key %q; it has %s", name, k.Line, what, k.Value, strings.Join(list, ", "))
		}
	}
	return nil
}

// child returns the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if i := keyAt(n, key); i >= 0 {
		return n.Content[i+1]
	}
	return nil
}

// keyAt returns where in a mapping a key is, -1 where it is not; its value is behind it.
func keyAt(n *yaml.Node, key string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// number gives the tiles their names.
func (b *Board) number() {
	for i := range b.Tiles {
		b.Tiles[i].ID = "t" + strconv.Itoa(i+1)
	}
}

// YAML is the text of the board's file. What was in the file that it was read from stays as it is
// where it says the same, comments included.
func (b *Board) YAML() ([]byte, error) {
	var top *yaml.Node
	if b.doc != nil {
		top = b.doc.Content[0]
	} else {
		top = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	put(top, "title", b.Title)
	put(top, "script", b.Script)
	put(top, "refresh", b.Refresh)
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if at := keyAt(top, "tiles"); at >= 0 {
		// A comment between "tiles:" and the list could not be read again: it goes before both.
		key, old := top.Content[at], top.Content[at+1]
		for _, c := range []*string{&key.LineComment, &key.FootComment, &old.LineComment, &old.HeadComment} {
			if *c != "" {
				key.HeadComment = strings.TrimPrefix(key.HeadComment+"\n"+*c, "\n")
			}
			*c = ""
		}
		list.FootComment = old.FootComment
		top.Content[at+1] = list
	} else {
		top.Content = append(top.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "tiles"}, list)
	}
	for i := range b.Tiles {
		n, err := b.Tiles[i].toNode()
		if err != nil {
			return nil, err
		}
		list.Content = append(list.Content, n)
	}
	var out strings.Builder
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err := e.Encode(top)
	if err == nil {
		err = e.Close()
	}
	return []byte(out.String()), err
}

// put sets a key of a mapping to a text, or removes it where there is none.
func put(n *yaml.Node, key, text string) {
	if v := child(n, key); v != nil {
		if text != "" {
			if v.Value != text {
				v.SetString(text)
			}
			return
		}
		at := keyAt(n, key)
		n.Content = slices.Delete(n.Content, at, at+2)
		return
	}
	if text == "" {
		return
	}
	var v yaml.Node
	v.SetString(text)
	k := &yaml.Node{Kind: yaml.ScalarNode, Value: key}
	at := keyAt(n, "tiles")
	if at < 0 {
		at = len(n.Content)
	}
	if at == 0 && len(n.Content) > 0 { // the comment at the head of the file stays there
		k.HeadComment, n.Content[0].HeadComment = n.Content[0].HeadComment, ""
	}
	n.Content = slices.Insert(n.Content, at, k, &v)
}

// toNode is the tile in a document: the node that it was read from where that says the same.
func (t *Tile) toNode() (*yaml.Node, error) {
	if t.node != nil {
		var was Tile
		if err := t.node.Decode(&was); err == nil && was.equal(t) {
			return t.node, nil
		}
	}
	n := &yaml.Node{}
	if err := n.Encode(t); err != nil {
		return nil, err
	}
	if t.node != nil {
		n.HeadComment, n.FootComment = t.node.HeadComment, t.node.FootComment
	}
	t.node = n
	return n, nil
}

// equal reports whether two tiles say the same.
func (t *Tile) equal(o *Tile) bool {
	a, err := yaml.Marshal(t)
	if err != nil {
		return false
	}
	b, err := yaml.Marshal(o)
	return err == nil && string(a) == string(b)
}

func refreshOf(s string) (time.Duration, error) {
	if s == "" {
		return DefaultRefresh, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 100*time.Millisecond || d > time.Hour {
		return 0, fmt.Errorf("refresh cannot be %q; it is a time from 100ms to 1h, such as 2s", s)
	}
	return d, nil
}

// check refuses what no table could make sense of.
func (t *Tile) check() error {
	switch t.Kind {
	case Number, Series, Bars, Table:
	case "":
		return fmt.Errorf("the tile has no kind; it is one of number, series, bars, table")
	default:
		return fmt.Errorf("a tile cannot be of kind %q; it is one of number, series, bars, table", t.Kind)
	}
	switch t.From {
	case "", fromTarget, fromMemory:
	default:
		return fmt.Errorf("from cannot be %q; it is target (what is sealed) or memory (what the running job has made)", t.From)
	}
	if t.Kind != Table && t.Value == "" {
		return fmt.Errorf("a tile of kind %s needs a value: a column, or an aggregate such as sum(amount)", t.Kind)
	}
	if t.Kind == Table && (t.Value != "" || len(t.By) > 0) {
		return fmt.Errorf("a table has columns, and no value and by")
	}
	if t.Kind != Table && (len(t.Columns) > 0 || len(t.Order) > 0) {
		return fmt.Errorf("columns and order belong to tiles of kind table")
	}
	if t.Kind == Bars && len(t.By) == 0 {
		return fmt.Errorf("bars need by: the column that tells them apart")
	}
	if t.Kind == Number && len(t.By) > 0 {
		return fmt.Errorf("a number has no by; pick one with where, or take bars")
	}
	if t.Limit < 0 || t.Limit > maxLimit {
		return fmt.Errorf("limit cannot be %d; it is from 1 to %d", t.Limit, maxLimit)
	}
	if t.Width < 0 || t.Width > maxColumns {
		return fmt.Errorf("width cannot be %d; it is from 1 to %d columns", t.Width, maxColumns)
	}
	for _, s := range append([]string{t.Title, t.Table, t.Value, t.Generation}, t.By...) {
		if len(s) > maxText {
			return fmt.Errorf("%q... is longer than %d bytes", s[:20], maxText)
		}
	}
	if _, err := parseSpan(t.Last); err != nil {
		return err
	}
	if t.Value != "" {
		if _, err := parseValue(t.Value); err != nil {
			return err
		}
	}
	return nil
}

// span is how much of the past a tile shows.
type span struct {
	windows int   // that many windows; 0: not given so
	ms      int64 // that much time
	all     bool
}

func (s span) isZero() bool { return s == span{} }

// parseSpan reads Tile.Last.
func parseSpan(s string) (span, error) {
	wrong := fmt.Errorf("last cannot be %q; it is a number of windows, a time such as 48h or 7d, or all", s)
	switch {
	case s == "":
		return span{}, nil
	case s == "all":
		return span{all: true}, nil
	}
	if n, err := strconv.Atoi(s); err == nil {
		if n < 1 || n > maxPoints {
			return span{}, fmt.Errorf("last cannot be %d windows; it is from 1 to %d", n, maxPoints)
		}
		return span{windows: n}, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 36_500 {
			return span{ms: int64(n) * 86_400_000}, nil
		}
		return span{}, wrong
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Millisecond {
		return span{}, wrong
	}
	return span{ms: d.Milliseconds()}, nil
}

// value is a column, or an aggregate of one.
type value struct{ fn, column string }

var aggregates = []string{"sum", "count", "min", "max", "avg"}

// parseValue reads Tile.Value.
func parseValue(s string) (value, error) {
	s = strings.TrimSpace(s)
	fn, rest, ok := strings.Cut(s, "(")
	if !ok || !strings.HasSuffix(rest, ")") {
		if strings.ContainsAny(s, "()") {
			return value{}, fmt.Errorf("value cannot be %q; it is a column, or an aggregate such as sum(amount)", s)
		}
		return value{column: s}, nil
	}
	v := value{strings.ToLower(strings.TrimSpace(fn)), strings.TrimSpace(strings.TrimSuffix(rest, ")"))}
	if !slices.Contains(aggregates, v.fn) {
		return value{}, fmt.Errorf("value cannot be %q; its aggregate is one of %s", s, strings.Join(aggregates, ", "))
	}
	if v.column == "" || strings.ContainsAny(v.column, "()") {
		return value{}, fmt.Errorf("value %q names no column", s)
	}
	return v, nil
}

func (v value) String() string {
	if v.fn == "" {
		return v.column
	}
	return v.fn + "(" + v.column + ")"
}
