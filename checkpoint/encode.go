package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/types"
)

// A manifest is one object. All numbers are little endian; every byte is under a checksum (XXH3,
// 64 bits); the total length tells a torn object from a whole one before anything else is read.
//
//	 0  magic      89 'T' 'M' 'C' 'K' 'P' 0D 0A
//	 8  version    u32, that of the Manifest
//	12  sections   u32, n
//	16  length     u64, bytes of the whole object
//	24  directory  n entries of 32 bytes:
//	      kind     u16   1 header, 2 changes (Tail), 3 rows (Channel)
//	      codec    u16   0 as it is, 1 S2 (one block)
//	      number   u32   counts the sections of a kind from 0
//	      stored   u64   bytes of the section in this object
//	      raw      u64   bytes of its content
//	      sum      u64   XXH3 of the stored bytes
//	..  sum        u64   XXH3 of everything before
//	..  the sections, one after the other, in the order of the directory
//
// The first section, and no other, is the header: the Manifest as JSON, with the fields of
// manifestHeader besides. Readers skip fields of the header that they do not know; whatever else
// changes, changes the version. doc/layout.md tells this to people, testdata keeps old bytes.
const (
	manifestMagic = "\x89TMCKP\r\n"
	directoryAt   = 24
	directoryStep = 32
	sumSize       = 8
)

const (
	sectionHeader uint16 = 1 + iota
	sectionTail
	sectionChannel
)

const (
	codecNone uint16 = iota
	codecS2
)

// compressFrom is the size from which a section is compressed; below it there is nothing to win.
const compressFrom = 256

// manifestHeader is the first section.
type manifestHeader struct {
	*Manifest
	// Writer is drawn anew for every object, so that no two are alike: whoever finds its own
	// bytes under a name knows that it wrote them.
	Writer string          `json:"writer"`
	Tails  []uint16        `json:"tail"` // the operator of each section of changes
	Chans  []channelHeader `json:"channels"`
}

type channelHeader struct {
	From   int          `json:"from"`
	To     int          `json:"to"`
	Input  int          `json:"input"`
	Schema types.Schema `json:"schema"`
}

// ErrDamaged is what every Damage is.
var ErrDamaged = errors.New("damaged")

// ErrNewer is returned for what a later version of the program wrote.
var ErrNewer = errors.New("written by a newer version of the program")

// Damage says that an object does not hold what was written, what of it, and whose it is.
type Damage struct {
	Object string // its name in the store, or where it is
	// Checkpoint is the one that needs it, Older the next older one that can be read, 0 if there
	// is none or it is not known.
	Checkpoint, Older int64
	Part              string // which part of the object; "" is all of it
	Of                string // the operator whose data this is, "" if it is not known
	Detail            string // what is wrong with it
}

// Error implements error.
func (d *Damage) Error() string {
	s := "object " + d.Object
	switch {
	case d.Part != "":
		s = d.Part + " in " + s
	case d.Of != "":
		s += ", which belongs to " + d.Of + ","
	}
	s += " is damaged: " + d.Detail
	if d.Checkpoint > 0 {
		s = fmt.Sprintf("checkpoint %d: %s", d.Checkpoint, s)
	}
	if d.Older > 0 {
		s += fmt.Sprintf("; the next older checkpoint, %d, can be read", d.Older)
	}
	return s
}

// Unwrap implements errors.Is for ErrDamaged.
func (d *Damage) Unwrap() error { return ErrDamaged }

// section is one entry of the directory with its stored bytes.
type section struct {
	kind, codec uint16
	number      uint32
	raw         uint64
	sum         uint64
	stored      []byte
}

func newSection(kind uint16, number int, raw []byte) section {
	s := section{kind: kind, number: uint32(number), raw: uint64(len(raw)), stored: raw}
	if len(raw) >= compressFrom {
		if c := s2.Encode(nil, raw); len(c) < len(raw)-len(raw)/16 {
			s.codec, s.stored = codecS2, c
		}
	}
	s.sum = xxh3.Hash(s.stored)
	return s
}

// EncodeManifest gives the bytes of a manifest. writer tells these bytes from those of anyone else.
func EncodeManifest(m *Manifest, writer string) ([]byte, error) {
	c := *m
	c.Version = m.version()
	h := manifestHeader{Manifest: &c, Writer: writer}
	sections := make([]section, 1, 1+len(m.Tail)+len(m.Channels))
	for i, t := range m.Tail {
		h.Tails = append(h.Tails, t.Operator)
		sections = append(sections, newSection(sectionTail, i, t.Changes))
	}
	for i, ch := range m.Channels {
		h.Chans = append(h.Chans, channelHeader{ch.From, ch.To, ch.Input, ch.Schema})
		sections = append(sections, newSection(sectionChannel, i, ch.Rows))
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode checkpoint %d: %w", m.ID, err)
	}
	sections[0] = newSection(sectionHeader, 0, text)
	return joinSections(c.Version, sections), nil
}

func joinSections(version int, sections []section) []byte {
	size := directoryAt + directoryStep*len(sections) + sumSize
	for _, s := range sections {
		size += len(s.stored)
	}
	le := binary.LittleEndian
	b := make([]byte, 0, size)
	b = append(b, manifestMagic...)
	b = le.AppendUint32(b, uint32(version))
	b = le.AppendUint32(b, uint32(len(sections)))
	b = le.AppendUint64(b, uint64(size))
	for _, s := range sections {
		b = le.AppendUint16(b, s.kind)
		b = le.AppendUint16(b, s.codec)
		b = le.AppendUint32(b, s.number)
		b = le.AppendUint64(b, uint64(len(s.stored)))
		b = le.AppendUint64(b, s.raw)
		b = le.AppendUint64(b, s.sum)
	}
	b = le.AppendUint64(b, xxh3.Hash(b))
	for _, s := range sections {
		b = append(b, s.stored...)
	}
	return b
}

// DecodeManifest reads what EncodeManifest wrote. object is what errors call it. The result does not
// point into data. Errors are a *Damage, or ErrNewer.
func DecodeManifest(data []byte, object string) (*Manifest, error) {
	sections, err := splitSections(data, object)
	if err != nil {
		return nil, err
	}
	d := decoder{object: object}
	m, err := d.manifest(sections)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func splitSections(data []byte, object string) ([]section, error) {
	damaged := func(part, format string, args ...any) error {
		return &Damage{Object: object, Part: part, Detail: fmt.Sprintf(format, args...)}
	}
	le := binary.LittleEndian
	if len(data) < directoryAt+directoryStep+sumSize {
		return nil, damaged("", "it has %d bytes, which is less than any checkpoint has", len(data))
	}
	if string(data[:len(manifestMagic)]) != manifestMagic {
		return nil, damaged("", "it does not begin as a checkpoint does")
	}
	version, n, size := le.Uint32(data[8:]), le.Uint32(data[12:]), le.Uint64(data[16:])
	if version > FormatVersion {
		return nil, fmt.Errorf("object %s has format version %d, and this program reads versions up to %d: %w",
			object, version, FormatVersion, ErrNewer)
	}
	if version == 0 {
		return nil, damaged("", "there is no format version 0")
	}
	if size != uint64(len(data)) {
		return nil, damaged("", "it has %d bytes of %d: it is torn", len(data), size)
	}
	end := uint64(directoryAt) + directoryStep*uint64(n)
	if n == 0 || end+sumSize > uint64(len(data)) {
		return nil, damaged("its directory", "%d sections have no room in %d bytes", n, len(data))
	}
	if got, want := xxh3.Hash(data[:end]), le.Uint64(data[end:]); got != want {
		return nil, damaged("its directory", "its checksum is %016x, not %016x", got, want)
	}
	at := end + sumSize
	out := make([]section, n)
	for i := range out {
		e := data[directoryAt+directoryStep*i:]
		s := section{kind: le.Uint16(e), codec: le.Uint16(e[2:]), number: le.Uint32(e[4:]), raw: le.Uint64(e[16:]), sum: le.Uint64(e[24:])}
		stored := le.Uint64(e[8:])
		if stored > uint64(len(data))-at {
			return nil, damaged("its directory", "section %d ends behind the object", i)
		}
		s.stored = data[at : at+stored]
		at += stored
		out[i] = s
	}
	if at != uint64(len(data)) {
		return nil, damaged("its directory", "%d bytes belong to no section", uint64(len(data))-at)
	}
	return out, nil
}

// decoder names what it reads for errors.
type decoder struct {
	object string
	id     int64
	labels map[uint16]string
}

func (d *decoder) damaged(part, of, format string, args ...any) error {
	return &Damage{Object: d.object, Checkpoint: d.id, Part: part, Of: of, Detail: fmt.Sprintf(format, args...)}
}

func (d *decoder) manifest(sections []section) (*Manifest, error) {
	if sections[0].kind != sectionHeader {
		return nil, d.damaged("its directory", "", "the header is missing")
	}
	text, err := d.open(sections[0], "the header", "")
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	h := manifestHeader{Manifest: m}
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, d.damaged("the header", "", "%v", err)
	}
	d.id, d.labels = m.ID, map[uint16]string{}
	for _, o := range m.Operators {
		d.labels[o.ID] = o.Label
	}
	if n := len(h.Tails) + len(h.Chans) + 1; n != len(sections) {
		return nil, d.damaged("the header", "", "it names %d sections, and the object has %d", n, len(sections))
	}
	for i, operator := range h.Tails {
		of := d.operator(operator)
		raw, err := d.section(sections[1+i], sectionTail, i, "the changes of "+of, of)
		if err != nil {
			return nil, err
		}
		m.Tail = append(m.Tail, Tail{Operator: operator, Changes: raw})
	}
	for i, c := range h.Chans {
		part := fmt.Sprintf("the rows on their way from node %d to node %d", c.From, c.To)
		raw, err := d.section(sections[1+len(h.Tails)+i], sectionChannel, i, part, "")
		if err != nil {
			return nil, err
		}
		m.Channels = append(m.Channels, Channel{From: c.From, To: c.To, Input: c.Input, Schema: c.Schema, Rows: raw})
	}
	return m, nil
}

func (d *decoder) operator(id uint16) string {
	if l := d.labels[id]; l != "" {
		return fmt.Sprintf("operator %d (%s)", id, l)
	}
	return fmt.Sprintf("operator %d", id)
}

// section opens the i-th section of a kind.
func (d *decoder) section(s section, kind uint16, i int, part, of string) ([]byte, error) {
	if s.kind != kind || s.number != uint32(i) {
		return nil, d.damaged("its directory", "", "where %s should be is section %d of kind %d", part, s.number, s.kind)
	}
	return d.open(s, part, of)
}

// open checks a section and returns a copy of its content.
func (d *decoder) open(s section, part, of string) ([]byte, error) {
	if got := xxh3.Hash(s.stored); got != s.sum {
		return nil, d.damaged(part, of, "the checksum is %016x, not %016x", got, s.sum)
	}
	switch s.codec {
	case codecNone:
		if s.raw != uint64(len(s.stored)) {
			return nil, d.damaged(part, of, "there are %d bytes, not %d", len(s.stored), s.raw)
		}
		return append([]byte(nil), s.stored...), nil
	case codecS2:
		n, err := s2.DecodedLen(s.stored)
		if err != nil || uint64(n) != s.raw {
			return nil, d.damaged(part, of, "there are %d bytes, not %d (%v)", n, s.raw, err)
		}
		raw, err := s2.Decode(nil, s.stored)
		if err != nil {
			return nil, d.damaged(part, of, "it cannot be decompressed: %v", err)
		}
		return raw, nil
	}
	return nil, d.damaged(part, of, "no compression has number %d", s.codec)
}
