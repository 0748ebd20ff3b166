// Package csv is the format csv: values separated by commas or another character, as Apache
// Flink's csv format reads and writes them.
//
// In files a quoted value may hold newlines. A source should cut chunks where Decoder.Complete
// says; in one that ends within a quoted value, the line where that value starts is a bad record.
// A record of a message queue is the first line of the message, as in Flink.
package csv

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// Options lists what the format understands. Those that say so are of later versions of Flink
// than 1.20.
var Options = []option.Spec{
	{Name: "field-delimiter", Kind: option.String, Default: ",",
		Doc:     "the character between values; Java's escapes such as \\t and \\u0001 are understood",
		Example: "\\t"},
	{Name: "quote-character", Kind: option.String, Default: `"`,
		Doc: "the character around values that hold a delimiter or newline"},
	{Name: "disable-quote-character", Kind: option.Bool, Default: "false",
		Doc: "no character quotes; excludes quote-character"},
	{Name: "allow-comments", Kind: option.Bool, Default: "false",
		Doc: "skip lines that start with #"},
	{Name: "ignore-parse-errors", Kind: option.Bool, Default: "false",
		Doc: "read NULL where a value is missing or cannot be converted, and skip records with " +
			"wrong quotes or too many values"},
	{Name: "array-element-delimiter", Kind: option.String, Default: ";",
		Doc: "the character between the elements of an ARRAY or the fields of a ROW"},
	{Name: "escape-character", Kind: option.String,
		Doc: "a character that takes the meaning of the one behind it"},
	{Name: "null-literal", Kind: option.String,
		Doc: "the text that stands for NULL"},
	{Name: "write-bigdecimal-in-scientific-notation", Kind: option.Bool, Default: "true",
		Doc: "write DECIMAL 100000 as 1E+5, except in files, as Flink does"},
	{Name: "trim-spaces", Kind: option.Bool, Default: "false",
		Doc: "cut spaces off both ends of values without quotes (Flink 2)"},
	{Name: "ignore-trailing-unmappable", Kind: option.Bool, Default: "false",
		Doc: "ignore values beyond the last column (Flink 2)"},
	{Name: "allow-trailing-comma", Kind: option.Bool, Default: "true",
		Doc: "ignore one delimiter behind the last value (Flink 2)"},
	{Name: "fail-on-missing-columns", Kind: option.Bool, Default: "false",
		Doc: "refuse records with too few values even where ignore-parse-errors is set (Flink 2)"},
	{Name: "empty-string-as-null", Kind: option.Bool, Default: "false",
		Doc: "read NULL for an empty value (Flink 2)"},
	{Name: "ignore-first-line", Kind: option.Bool, Default: "false",
		Doc: "skip the first line of a file (Flink 2)"},
}

func init() {
	format.Register(&format.Factory{
		Name: "csv",
		Doc: "Values separated by commas, a line a row. Columns are matched by position, so a " +
			"table must declare all of them.",
		Options:    Options,
		Changelog:  types.InsertOnly,
		Check:      check,
		NewDecoder: func(c format.DecoderConfig) (format.Decoder, error) { return NewDecoder(c) },
		NewEncoder: func(c format.EncoderConfig) (format.Encoder, error) { return NewEncoder(c) },
	})
}

func check(s types.Schema, o option.Values) error {
	if _, err := syntaxOf(o); err != nil {
		return err
	}
	for _, f := range s.Fields {
		if err := checkType(f.Name, f.Type); err != nil {
			return err
		}
	}
	return nil
}

func checkType(name string, t types.Type) error {
	kids := t.Fields
	switch t.Kind {
	case types.Array:
		kids = []types.Field{{Type: *t.Elem}}
	case types.Row:
	default:
		return checkSimple(name, t)
	}
	for _, k := range kids {
		if k.Type.IsNested() {
			return fmt.Errorf("column %s: CSV has no form for %s; the elements of an ARRAY and "+
				"the fields of a ROW must be simple", name, t.WithNullable(true))
		}
		if err := checkSimple(name, k.Type); err != nil {
			return err
		}
	}
	return nil
}

func checkSimple(name string, t types.Type) error {
	switch {
	case t.IsNested() || t.IsInterval() || t.Kind > types.Row:
		return fmt.Errorf("column %s: CSV has no form for %s", name, t.WithNullable(true))
	case t.Kind == types.Time && t.Precision > 3:
		return fmt.Errorf("column %s: CSV carries TIME up to precision 3, not %d", name, t.Precision)
	}
	return nil
}

// syntax is the characters and rules of a table's CSV.
type syntax struct {
	delimiter []byte
	array     []byte
	quote     int // -1: none
	escape    int // -1: none
	null      string
	hasNull   bool

	comments, ignore, plain                               bool
	trim, extra, trailing, missing, emptyNull, ignoreLine bool
}

func syntaxOf(o option.Values) (*syntax, error) {
	s := &syntax{
		null: o.Get("null-literal"), hasNull: o.Has("null-literal"),
		comments: o.Bool("allow-comments"), ignore: o.Bool("ignore-parse-errors"),
		plain: o.Has("write-bigdecimal-in-scientific-notation") &&
			!o.Bool("write-bigdecimal-in-scientific-notation"),
		trim:       o.Bool("trim-spaces"),
		extra:      o.Bool("ignore-trailing-unmappable"),
		trailing:   !o.Has("allow-trailing-comma") || o.Bool("allow-trailing-comma"),
		missing:    o.Bool("fail-on-missing-columns"),
		emptyNull:  o.Bool("empty-string-as-null"),
		ignoreLine: o.Bool("ignore-first-line"),
		quote:      '"', escape: -1,
	}
	noQuote := o.Bool("disable-quote-character")
	if noQuote && o.Has("quote-character") {
		return nil, &option.Error{Key: "quote-character",
			Msg:  "'quote-character' and 'disable-quote-character' exclude each other",
			Hint: "leave one of them out"}
	}
	var err error
	if s.delimiter, err = character(o, "field-delimiter", ","); err != nil {
		return nil, err
	}
	if s.array, err = character(o, "array-element-delimiter", ";"); err != nil {
		return nil, err
	}
	if s.quote, err = ascii(o, "quote-character", '"'); err != nil {
		return nil, err
	}
	if noQuote {
		s.quote = -1
	}
	s.escape, err = ascii(o, "escape-character", -1)
	return s, err
}

// character reads an option that is one character. Only the delimiter of fields may be escaped.
func character(o option.Values, key, def string) ([]byte, error) {
	if !o.Has(key) {
		return []byte(def), nil
	}
	text := o.Get(key)
	if key == "field-delimiter" {
		text = unescapeJava(text)
	}
	if utf8.RuneCountInString(text) != 1 {
		return nil, &option.Error{Key: key,
			Msg: fmt.Sprintf("option '%s' cannot be '%s'", key, o.Get(key)), Hint: "write one character"}
	}
	return []byte(text), nil
}

func ascii(o option.Values, key string, def int) (int, error) {
	if !o.Has(key) {
		return def, nil
	}
	c, err := character(o, key, "")
	if err != nil {
		return 0, err
	}
	if len(c) > 1 {
		return 0, &option.Error{Key: key,
			Msg: fmt.Sprintf("option '%s' cannot be '%s'", key, c), Hint: "use an ASCII character"}
	}
	return int(c[0]), nil
}

// unescapeJava resolves the escapes of Java's string literals; what is not one stays.
func unescapeJava(s string) string {
	if !strings.HasPrefix(s, "\\") || len(s) < 2 {
		return s
	}
	for _, pair := range []string{"t\t", "b\b", "n\n", "f\f", "r\r", "\"\"", "''", "\\\\"} {
		if s[1:] == pair[:1] {
			return pair[1:]
		}
	}
	base, digits := 8, s[1:]
	if s[1] == 'u' {
		base, digits = 16, strings.TrimLeft(s[1:], "u+")
	}
	if n, err := strconv.ParseUint(digits, base, 16); err == nil {
		return string(rune(n))
	}
	return s
}
