package jsonrow

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tidemark-stream/tidemark/format/spell"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Reader decodes JSON objects into the vectors of a batch. The calls go Begin, then Line or
// Object for every record, then End.
type Reader struct {
	opts Options
	root object
	// exact says that floats inside text are printed as decimals: Flink does so once the row
	// type has a DECIMAL anywhere.
	exact bool

	// data is what is being read, up to where the record certainly ends. framed says that it
	// ends at the record's end; otherwise a newline ends the record, wherever it stands.
	data   []byte
	framed bool

	days  spell.DateCache
	text  []byte // memory for unescaped strings
	rows  int    // room in the vectors
	fault fault
}

// fault is the first thing wrong with a record.
type fault struct {
	pos  int
	msg  string
	node *node
}

// NewReader compiles a reader of the given columns of s. Members of other names, and the columns
// not listed, are skipped.
func NewReader(s types.Schema, columns []int, opts Options) (*Reader, error) {
	if opts.IgnoreErrors && opts.FailOnMissing {
		return nil, errors.New("'fail-on-missing-field' and 'ignore-parse-errors' exclude each " +
			"other; set one of them")
	}
	if err := CheckSchema(s); err != nil {
		return nil, err
	}
	r := &Reader{opts: opts, days: spell.DateCache{ISO: opts.ISO}}
	for _, f := range s.Fields {
		r.exact = r.exact || hasDecimal(f.Type)
	}
	fields := make([]types.Field, len(columns))
	for i, c := range columns {
		fields[i] = s.Fields[c]
	}
	r.root.init(fields)
	return r, nil
}

func hasDecimal(t types.Type) bool {
	if t.Kind == types.Decimal {
		return true
	}
	for _, f := range t.Fields {
		if hasDecimal(f.Type) {
			return true
		}
	}
	return t.Elem != nil && hasDecimal(*t.Elem) || t.Key != nil && hasDecimal(*t.Key)
}

// Begin directs the reader at the vectors of a batch that holds n rows and shall get up to max,
// from records that lie in data. The vectors may come to point into data.
func (r *Reader) Begin(cols []*vec.Vec, data []byte, n, max int) {
	r.rows = max
	for i, f := range r.root.nodes {
		cols[i].Resize(max)
		f.bind(cols[i], data, n)
	}
}

// End cuts the vectors to n rows.
func (r *Reader) End(n int) {
	for _, f := range r.root.nodes {
		f.v.Resize(n)
		f.unbind()
	}
}

// Line reads the object of the line that starts at i of data into row. It returns where the next
// line starts. Whatever follows the object on its line is ignored, as by Flink; ok is false where
// the line is not a record, and then Err says why. blank reports an empty line.
func (r *Reader) Line(data []byte, i, row int) (next int, ok, blank bool) {
	r.data, r.framed = data, false
	if end := r.object(&r.root, row, i); end >= 0 {
		if end == len(data) {
			return end, true, false
		}
		if data[end] == '\n' {
			return end + 1, true, false
		}
		if k := bytes.IndexByte(data[end:], '\n'); k >= 0 {
			return end + k + 1, true, false
		}
		return len(data), true, false
	}
	// Something is unusual: look again with the end of the line in hand.
	r.Clean(row)
	end := len(data)
	next = end
	if k := bytes.IndexByte(data[i:], '\n'); k >= 0 {
		end = i + k
		next = end + 1
	}
	if end > i && data[end-1] == '\r' {
		end--
	}
	if end == i {
		return next, false, true
	}
	return next, r.Object(data[:end], i, row), false
}

// Object reads the object that starts at i of data, which ends with the record, into row.
func (r *Reader) Object(data []byte, i, row int) bool {
	r.Frame(data)
	if bytes.HasPrefix(data[i:], bom) {
		i += len(bom)
	}
	if i = r.ws(i); i < 0 {
		return false
	}
	return r.At(i, row) >= 0
}

// Frame makes data, which ends with a record, what the reader works on.
func (r *Reader) Frame(data []byte) {
	r.data, r.framed = data, true
	r.fault = fault{}
}

// At reads the object at i of the frame into row and returns its end, or -1.
func (r *Reader) At(i, row int) int {
	if i = r.object(&r.root, row, i); i < 0 {
		r.Clean(row)
	}
	return i
}

// Clean takes back what an attempt that failed elsewhere wrote to row.
func (r *Reader) Clean(row int) {
	for _, f := range r.root.nodes {
		f.valid(row)
	}
}

var bom = []byte("\xef\xbb\xbf")

// Err describes what was wrong with the last record. at is where the record starts in the data.
func (r *Reader) Err(at int) error {
	if n := r.fault.node; n != nil {
		return fmt.Errorf("JSON field '%s', at byte %d: %s", n.name, r.fault.pos-at, r.fault.msg)
	}
	return fmt.Errorf("not JSON at byte %d: %s", r.fault.pos-at, r.fault.msg)
}

// fail notes what is wrong at pos, unless something was already, and returns -1.
func (r *Reader) fail(pos int, msg string) int {
	if r.fault.msg == "" {
		r.fault = fault{pos: pos, msg: msg}
	}
	return -1
}

// object reads the object at i into position row of the vectors of o's fields and returns its
// end, or -1. This is the hot loop: one turn per member. The commonest gap and the commonest values
// are dealt with in place, since a call apiece would cost a tenth of the whole (measured on records
// of seven members); expect and value deal with them too.
func (r *Reader) object(o *object, row, i int) int {
	data := r.data
	if len(o.seen) == 1 {
		o.seen[0] = 0
	} else {
		clear(o.seen)
	}
	cur := int32(slotHead)
	for {
		s := &o.slots[cur]
		if g := &s.first; i+16 <= len(data) && g.n <= 16 &&
			(load(data, i)&g.maskLo^g.lo)|(load(data, i+8)&g.maskHi^g.hi) == 0 {
			i, cur = i+g.n, g.next
		} else if g := s.expect(data, i); g != nil {
			i, cur = i+g.n, g.next
		} else if i, cur = r.member(o, cur, i); i < 0 {
			return -1
		}
		if cur == slotEnd {
			break
		}
		f := o.slots[cur].node
		if f == nil {
			if i < len(data) && data[i] == '"' {
				if end := plain(data, i+1); end < len(data) && data[end] == '"' {
					i = end + 1
					continue
				}
			}
			if i = r.pass(i); i < 0 {
				return -1
			}
			continue
		}
		word, bit := f.index>>6, uint64(1)<<(f.index&63)
		if o.seen[word]&bit != 0 {
			f.valid(row) // a member that occurs twice: the last one counts
		}
		o.seen[word] |= bit
		if f.kind == kindInt64 {
			if x, end := spell.Integer(data, i); end > 0 {
				f.v.I64[row] = x
				i = end
				continue
			}
		} else if f.kind == kindString && i < len(data) && data[i] == '"' {
			if end := plain(data, i+1); end < len(data) && data[end] == '"' {
				f.str.Set(row, data, i+1, end)
				i = end + 1
				continue
			}
		}
		if i = r.value(f, row, i); i < 0 {
			return -1
		}
	}
	for word, all := range o.all {
		if missing := all &^ o.seen[word]; missing != 0 && !r.missing(o, word, missing, row, i) {
			return -1
		}
	}
	return i
}

// pass skips the value at i: a plain string or number at once, others with care.
func (r *Reader) pass(i int) int {
	data := r.data
	if i < len(data) {
		if data[i] == '"' {
			if end := plain(data, i+1); end < len(data) && data[end] == '"' {
				return end + 1
			}
		} else if _, end := spell.Integer(data, i); end > 0 {
			return end
		}
	}
	return r.Skip(i)
}

// value reads the value at i into position row of n's vector: first the usual spelling of the
// usual types, and whatever is not that in read.
func (r *Reader) value(n *node, row, i int) int {
	data := r.data
	switch n.kind {
	case kindInt64:
		if x, end := spell.Integer(data, i); end > 0 {
			n.v.I64[row] = x
			return end
		}
	case kindInt32:
		if x, end := spell.Integer(data, i); end > 0 && int64(int32(x)) == x {
			n.v.I32[row] = int32(x)
			return end
		}
	case kindString:
		if i < len(data) && data[i] == '"' {
			end := plain(data, i+1)
			if end < len(data) && data[end] == '"' {
				n.str.Set(row, data, i+1, end)
				return end + 1
			}
		}
	case kindTime64:
		if ms, end := r.days.Quoted(data, i, n.zone); end > 0 {
			n.v.I64[row] = ms
			return end
		}
	case kindTime128:
		if ms, end := r.days.Quoted(data, i, n.zone); end > 0 {
			n.v.I128[row] = types.TS(ms, 0)
			return end
		}
	case kindRow:
		if i < len(data) && data[i] == '{' {
			return r.object(n.obj, row, i)
		}
	case kindFloat64:
		if x, end := spell.Double(data, i); end > 0 {
			n.v.F64[row] = x
			return end
		}
	case kindDecimal64:
		if x, end := spell.Decimal(data, i, n.scale, n.limit); end > 0 {
			n.v.I64[row] = x
			return end
		}
	}
	return r.read(n, row, i)
}

// missing makes the fields of o that a record lacks NULL; false where that is not allowed.
func (r *Reader) missing(o *object, word int, set uint64, row, i int) bool {
	for b := 0; b < 64; b++ {
		if set&(1<<b) == 0 {
			continue
		}
		f := o.nodes[word<<6+b]
		if r.opts.FailOnMissing {
			r.fail(i, "it is missing, and 'fail-on-missing-field' is set")
			r.fault.node = f
			return false
		}
		f.null(row)
	}
	return true
}

// member reads what stands before a value - the comma or opening brace, the name, the colon - and
// returns where the value starts and the slot it belongs to. It notes the bytes in slot cur, so
// that the next record finds them by comparing.
func (r *Reader) member(o *object, cur int32, i int) (int, int32) {
	data := r.data
	start := i
	if i = r.ws(i); i < 0 {
		return -1, 0
	}
	c := data[i]
	switch {
	case c == '{' && cur == slotHead:
		if i = r.ws(i + 1); i < 0 {
			return -1, 0
		}
		c = data[i]
	case cur == slotHead:
		return r.fail(i, "an object was expected"), 0
	case c == ',':
		if i = r.ws(i + 1); i < 0 {
			return -1, 0
		}
		c = data[i]
		if c != '"' {
			return r.fail(i, "a name in quotes was expected"), 0
		}
	case c != '}':
		return r.fail(i, "a comma or the closing brace was expected"), 0
	}
	if c == '}' {
		o.learn(cur, data[start:i+1], slotEnd)
		return i + 1, slotEnd
	}
	if c != '"' {
		return r.fail(i, "a name in quotes was expected"), 0
	}
	end, esc := r.str(i + 1)
	if end < 0 {
		return -1, 0
	}
	name := data[i+1 : end]
	if esc {
		r.text = unescape(r.text[:0], name)
		name = r.text
	}
	if i = r.colon(end + 1); i < 0 {
		return -1, 0
	}
	next := o.slot(name)
	o.learn(cur, data[start:i], next)
	return i, next
}
