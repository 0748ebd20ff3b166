package types

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The JSON of a type is its structure, not its SQL text: everything that a Type holds comes back,
// and a reader in another language needs no parser. A kind's name is for ever.
//
//	{"kind":"DECIMAL","notNull":true,"precision":10,"scale":2}
//	{"kind":"MAP","key":{"kind":"INT"},"elem":{"kind":"ROW","fields":[{"name":"a","type":{...}}]}}

// typeJSON is the form of a Type in JSON. A missing field is the zero value.
type typeJSON struct {
	Kind      string  `json:"kind"`
	NotNull   bool    `json:"notNull,omitempty"`
	Precision int     `json:"precision,omitempty"`
	Scale     int     `json:"scale,omitempty"`
	Unit      string  `json:"unit,omitempty"`
	Attr      string  `json:"attr,omitempty"`
	Key       *Type   `json:"key,omitempty"`
	Elem      *Type   `json:"elem,omitempty"`
	Fields    []Field `json:"fields,omitempty"`
}

type fieldJSON struct {
	Name    string `json:"name"`
	Type    Type   `json:"type"`
	Comment string `json:"comment,omitempty"`
}

// Names in JSON: those of SQL, but for the two kinds of intervals.
var (
	jsonKinds = func() map[string]Kind {
		m := map[string]Kind{}
		for k := Null; k <= Descriptor; k++ {
			m[k.jsonName()] = k
		}
		return m
	}()
	jsonUnits = func() map[string]Interval {
		m := map[string]Interval{}
		for u, name := range unitNames {
			m[name] = Interval(u)
		}
		return m
	}()
	attrNames = [...]string{NoTime: "", RowTime: "ROWTIME", ProcTime: "PROCTIME"}
)

func (k Kind) jsonName() string {
	switch k {
	case IntervalYearMonth:
		return "INTERVAL_YEAR_MONTH"
	case IntervalDayTime:
		return "INTERVAL_DAY_TIME"
	}
	return k.String()
}

// MarshalJSON implements json.Marshaler.
func (t Type) MarshalJSON() ([]byte, error) {
	j := typeJSON{
		Kind: t.Kind.jsonName(), NotNull: !t.Nullable, Precision: t.Precision, Scale: t.Scale,
		Unit: t.Unit.String(), Attr: attrNames[t.Attr], Key: t.Key, Elem: t.Elem, Fields: t.Fields,
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements json.Unmarshaler. It refuses what is not a type, so that a type which
// was read can be used without further checks.
func (t *Type) UnmarshalJSON(text []byte) error {
	var j typeJSON
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // a property of types that this program does not know changes the type
	if err := d.Decode(&j); err != nil {
		return fmt.Errorf("read a type: %w", err)
	}
	kind, ok := jsonKinds[j.Kind]
	if !ok {
		return fmt.Errorf("read a type: no kind is called %q", j.Kind)
	}
	unit, ok := jsonUnits[j.Unit]
	if !ok {
		return fmt.Errorf("read a type: no interval is called %q", j.Unit)
	}
	out := Type{
		Kind: kind, Nullable: !j.NotNull, Precision: j.Precision, Scale: j.Scale, Unit: unit,
		Key: j.Key, Elem: j.Elem, Fields: j.Fields,
	}
	switch j.Attr {
	case "":
	case attrNames[RowTime]:
		out.Attr = RowTime
	case attrNames[ProcTime]:
		out.Attr = ProcTime
	default:
		return fmt.Errorf("read a type: no time attribute is called %q", j.Attr)
	}
	if err := out.checkShape(); err != nil {
		return fmt.Errorf("read a type: %w", err)
	}
	*t = out
	return nil
}

// checkShape reports parts that a kind lacks, has too many of, or numbers out of range.
func (t Type) checkShape() error {
	wantElem := t.Kind == Array || t.Kind == Map || t.Kind == Multiset
	if wantElem != (t.Elem != nil) || (t.Kind == Map) != (t.Key != nil) ||
		t.Kind != Row && len(t.Fields) > 0 {
		return fmt.Errorf("a type of kind %s has other parts", t.Kind.jsonName())
	}
	most := MaxLength
	switch {
	case t.Kind == Decimal:
		most = MaxPrecision
	case t.Kind == Time || t.IsTimestamp() || t.IsInterval():
		most = 9
	}
	if t.Precision < 0 || t.Precision > most || t.Scale < 0 || t.Scale > t.Precision {
		return fmt.Errorf("%s cannot have precision %d and scale %d", t.Kind.jsonName(), t.Precision, t.Scale)
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (f Field) MarshalJSON() ([]byte, error) { return json.Marshal(fieldJSON(f)) }

// UnmarshalJSON implements json.Unmarshaler.
func (f *Field) UnmarshalJSON(text []byte) error {
	var j fieldJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	if j.Type.Kind == Null && !j.Type.Nullable {
		return fmt.Errorf("read field %q: it has no type", j.Name)
	}
	*f = Field(j)
	return nil
}

// MarshalJSON implements json.Marshaler: a schema is the array of its fields.
func (s Schema) MarshalJSON() ([]byte, error) {
	if s.Fields == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(s.Fields)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Schema) UnmarshalJSON(text []byte) error {
	s.Fields = nil
	if err := json.Unmarshal(text, &s.Fields); err != nil {
		return err
	}
	if len(s.Fields) == 0 {
		s.Fields = nil
	}
	return nil
}
