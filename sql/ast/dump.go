package ast

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// dumpWidth is the line length beyond which Dump breaks a node into lines.
const dumpWidth = 100

// Dump shows the tree below n, without positions: each node in parentheses with
// its type, and its fields that are not zero. It is for tests and for people who
// look into the parser.
func Dump(n Node) string { return dumpValue(reflect.ValueOf(n), "") }

func dumpValue(v reflect.Value, indent string) string {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return "nil"
		}
		return dumpValue(v.Elem(), indent)
	case reflect.Slice:
		if b, ok := v.Interface().([]byte); ok {
			return fmt.Sprintf("%x", b)
		}
		items := make([]string, v.Len())
		for i := range items {
			items[i] = dumpValue(v.Index(i), indent+"  ")
		}
		return layout("[", items, "]", indent)
	case reflect.Struct:
		return dumpStruct(v, indent)
	case reflect.String:
		if s := v.String(); isPlainWord(s) {
			return s
		}
		return strconv.Quote(v.String())
	}
	text := fmt.Sprint(v.Interface())
	if isPlainWord(text) {
		return text
	}
	if _, ok := v.Interface().(fmt.Stringer); ok {
		return strconv.Quote(text)
	}
	return text
}

func dumpStruct(v reflect.Value, indent string) string {
	switch n := v.Interface().(type) {
	case Ident:
		return written(n)
	case Name:
		parts := make([]string, len(n.Parts))
		for i, p := range n.Parts {
			parts[i] = written(p)
		}
		return strings.Join(parts, ".")
	case StringLit:
		if n.Charset == "" && !n.Unicode {
			return QuoteString(n.Value)
		}
	case NumberLit:
		return n.Text
	}
	t := v.Type()
	items := []string{t.Name()}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == reflect.TypeOf(Span{}) || v.Field(i).IsZero() {
			continue
		}
		if f.Type.Kind() == reflect.Bool {
			items = append(items, f.Name)
			continue
		}
		items = append(items, f.Name+":"+dumpValue(v.Field(i), indent+"  "))
	}
	return layout("(", items, ")", indent)
}

// written shows an identifier as it was written.
func written(id Ident) string {
	if id.Quoted {
		return "`" + strings.ReplaceAll(id.Name, "`", "``") + "`"
	}
	return id.Name
}

// layout joins items on one line if they fit, else one a line.
func layout(open string, items []string, end, indent string) string {
	line := open + strings.Join(items, " ") + end
	if len(indent)+len(line) <= dumpWidth && !strings.Contains(line, "\n") {
		return line
	}
	if open == "(" {
		// The type stays on the first line.
		return open + strings.Join(items, "\n  "+indent) + end
	}
	return open + "\n  " + indent + strings.Join(items, "\n  "+indent) + end
}
