package pgout

import (
	"fmt"

	"millrace/core/pos"
)

// Message is one pgoutput message. A *Table is one as well, by its Relation: no decoder
// returns it.
//
//sumtype:decl
type Message interface{ message() }

// Begin opens a transaction. Everything until Commit belongs to it.
type Begin struct {
	Final  pos.LSN // where its commit record begins
	Micros int64   // commit time, microseconds since 1970
	XID    uint32
}

// Commit closes the transaction.
type Commit struct {
	Flags  uint8
	Final  pos.LSN // where the commit record begins: Begin's Final
	End    pos.LSN // where the commit record ends: what a confirmation of this commit says
	Micros int64
}

// Origin says that the transaction was replicated into the server from elsewhere.
type Origin struct {
	Final pos.LSN
	Name  string
}

// TypeName tells the name of a type that is not built in.
type TypeName struct {
	OID          uint32
	Schema, Name string
}

// Logical is what pg_logical_emit_message wrote.
type Logical struct {
	Transactional bool
	LSN           pos.LSN
	Prefix        string
	Content       []byte
}

func (*Begin) message()    {}
func (*Commit) message()   {}
func (*Origin) message()   {}
func (*TypeName) message() {}
func (*Logical) message()  {}
func (*Relation) message() {}
func (*Insert) message()   {}
func (*Update) message()   {}
func (*Delete) message()   {}
func (*Truncate) message() {}

// Decoder decodes messages. It lends what it returns: a message and all bytes in it
// are valid until the next Decode, and as long as the decoded bytes are.
type Decoder struct {
	begin    Begin
	commit   Commit
	origin   Origin
	typeName TypeName
	logical  Logical
	insert   Insert
	update   Update
	delete   Delete
	truncate Truncate
}

// Decode reads one whole message. The error says what was expected and where; the
// bytes themselves, being somebody's data, are never in it.
func (d *Decoder) Decode(b []byte) (Message, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("pgoutput message is empty")
	}
	r := &reader{b: b, at: 1}
	m := d.read(b[0], r)
	switch {
	case r.err != nil:
		return nil, fmt.Errorf("pgoutput message %q: %w", b[0], r.err)
	case m == nil:
		return nil, fmt.Errorf("pgoutput message %q is not one of proto_version 1", b[0])
	case r.at != len(b):
		return nil, fmt.Errorf("pgoutput message %q: %d bytes too many", b[0], len(b)-r.at)
	}
	return m, nil
}

func (d *Decoder) read(kind byte, r *reader) Message {
	switch kind {
	case 'B':
		return readBegin(r, &d.begin)
	case 'C':
		return readCommit(r, &d.commit)
	case 'O':
		return readOrigin(r, &d.origin)
	case 'Y':
		return readTypeName(r, &d.typeName)
	case 'M':
		return readLogical(r, &d.logical)
	case 'R':
		return readRelation(r)
	case 'I':
		return readInsert(r, &d.insert)
	case 'U':
		return readUpdate(r, &d.update)
	case 'D':
		return readDelete(r, &d.delete)
	case 'T':
		return readTruncate(r, &d.truncate)
	}
	return nil
}

// Encode appends m as pgoutput writes it.
func Encode(dst []byte, m Message) []byte {
	switch m := m.(type) {
	case *Begin:
		return m.encode(dst)
	case *Commit:
		return m.encode(dst)
	case *Origin:
		return m.encode(dst)
	case *TypeName:
		return m.encode(dst)
	case *Logical:
		return m.encode(dst)
	case *Relation:
		return m.encode(dst)
	case *Table:
		return m.encode(dst)
	case *Insert:
		return m.encode(dst)
	case *Update:
		return m.encode(dst)
	case *Delete:
		return m.encode(dst)
	case *Truncate:
		return m.encode(dst)
	}
	return dst
}
