package pgout

import "encoding/binary"

// ValueKind says how a column's value came.
type ValueKind byte

// The kinds of values. Binary values are never asked for, so they are an error.
const (
	Null      ValueKind = 'n'
	Unchanged ValueKind = 'u' // in TOAST storage and not touched by the update
	Text      ValueKind = 't'
)

// Value is one column of a row.
type Value struct {
	Kind ValueKind
	Text []byte
}

// Tuple is a row, in the order of the relation's columns.
type Tuple []Value

// OldKind says what an update or a delete tells of the old row.
type OldKind byte

// The kinds of old rows.
const (
	OldNone OldKind = 0   // an update that left the key alone
	OldKey  OldKind = 'K' // key columns only: the others say NULL and mean nothing
	OldFull OldKind = 'O' // the whole row: replica identity FULL
)

// Insert is a new row.
type Insert struct {
	Relation uint32
	New      Tuple
}

// Update is a changed row.
type Update struct {
	Relation uint32
	OldKind  OldKind
	Old, New Tuple
}

// Delete is a row that went.
type Delete struct {
	Relation uint32
	OldKind  OldKind
	Old      Tuple
}

// Truncate empties tables, all at once.
type Truncate struct {
	Options   uint8 // 1 cascade, 2 restart identity
	Relations []uint32
}

func readTuple(r *reader, into Tuple) Tuple {
	into = into[:0]
	for range r.count(int(r.u16("column count")), 1, "columns") {
		v := Value{Kind: ValueKind(r.u8("value kind"))}
		switch v.Kind {
		case Null, Unchanged:
		case Text:
			v.Text = r.take(int(int32(r.u32("value length"))), "value")
		default:
			r.fail("a value that is not text")
		}
		if r.err != nil {
			return into
		}
		into = append(into, v)
	}
	return into
}

func appendTuple(dst []byte, t Tuple) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(t)))
	for _, v := range t {
		dst = append(dst, byte(v.Kind))
		if v.Kind == Text {
			dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(v.Text))), v.Text...)
		}
	}
	return dst
}

func readNew(r *reader, into Tuple) Tuple {
	if kind := r.u8("tuple kind"); kind != 'N' {
		r.fail("no new row")
	}
	return readTuple(r, into)
}

func readInsert(r *reader, m *Insert) Message {
	m.Relation = r.u32("relation oid")
	m.New = readNew(r, m.New)
	return m
}

func (m *Insert) encode(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 'I'), m.Relation)
	return appendTuple(append(dst, 'N'), m.New)
}

func readUpdate(r *reader, m *Update) Message {
	m.Relation, m.OldKind, m.Old = r.u32("relation oid"), OldNone, m.Old[:0]
	if r.at < len(r.b) && r.b[r.at] != 'N' {
		m.OldKind = readOldKind(r)
		m.Old = readTuple(r, m.Old)
	}
	m.New = readNew(r, m.New)
	return m
}

func readOldKind(r *reader) OldKind {
	kind := OldKind(r.u8("tuple kind"))
	if kind != OldKey && kind != OldFull {
		r.fail("no old row")
	}
	return kind
}

func (m *Update) encode(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 'U'), m.Relation)
	if m.OldKind != OldNone {
		dst = appendTuple(append(dst, byte(m.OldKind)), m.Old)
	}
	return appendTuple(append(dst, 'N'), m.New)
}

func readDelete(r *reader, m *Delete) Message {
	m.Relation = r.u32("relation oid")
	m.OldKind = readOldKind(r)
	m.Old = readTuple(r, m.Old)
	return m
}

func (m *Delete) encode(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 'D'), m.Relation)
	return appendTuple(append(dst, byte(m.OldKind)), m.Old)
}

func readTruncate(r *reader, m *Truncate) Message {
	n := r.u32("relation count")
	m.Options = r.u8("options")
	m.Relations = m.Relations[:0]
	for range r.count(int(n), 4, "relations") {
		m.Relations = append(m.Relations, r.u32("relation oid"))
	}
	return m
}

func (m *Truncate) encode(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 'T'), uint32(len(m.Relations)))
	dst = append(dst, m.Options)
	for _, oid := range m.Relations {
		dst = binary.BigEndian.AppendUint32(dst, oid)
	}
	return dst
}
