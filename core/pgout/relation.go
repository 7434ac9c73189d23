package pgout

import (
	"encoding/binary"
	"slices"
)

// Identity is a table's replica identity: what of the old row an update or a delete tells.
type Identity byte

// The replica identities.
const (
	IdentityDefault Identity = 'd' // the primary key
	IdentityNothing Identity = 'n'
	IdentityFull    Identity = 'f'
	IdentityIndex   Identity = 'i'
)

// Column is one published column.
type Column struct {
	Name string
	Key  bool   // part of the replica identity
	Type uint32 // type OID
	Mod  int32  // atttypmod, -1 for none
}

// Relation tells a table's shape; it precedes the first change that needs it on a
// connection, and the next change after the shape may have changed. Unlike the other
// messages it is not lent: the Decoder makes a new one each time.
type Relation struct {
	OID          uint32
	Schema, Name string
	Identity     Identity
	Columns      []Column
}

// FullName is the record's filter value: schema.table.
func (m *Relation) FullName() string { return m.Schema + "." + m.Name }

// SameShape reports whether rows of m and o read alike: same name, identity and columns.
func (m *Relation) SameShape(o *Relation) bool {
	return m.Schema == o.Schema && m.Name == o.Name && m.Identity == o.Identity && slices.Equal(m.Columns, o.Columns)
}

// leastColumn is the fewest bytes a column takes in a Relation message.
const leastColumn = 10

func readRelation(r *reader) Message {
	m := &Relation{OID: r.u32("relation oid"), Schema: r.text("schema"), Name: r.text("table"), Identity: Identity(r.u8("replica identity"))}
	// pg_catalog comes as an empty name.
	if m.Schema == "" {
		m.Schema = "pg_catalog"
	}
	n := r.count(int(r.u16("column count")), leastColumn, "columns")
	m.Columns = make([]Column, 0, n)
	for range n {
		key := r.u8("column flags")&1 != 0
		m.Columns = append(m.Columns, Column{Key: key, Name: r.text("column name"), Type: r.u32("type oid"), Mod: int32(r.u32("type modifier"))})
	}
	return m
}

func (m *Relation) encode(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 'R'), m.OID)
	schema := m.Schema
	if schema == "pg_catalog" {
		schema = ""
	}
	dst = append(appendText(appendText(dst, schema), m.Name), byte(m.Identity))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(m.Columns)))
	for _, c := range m.Columns {
		flags := byte(0)
		if c.Key {
			flags = 1
		}
		dst = appendText(append(dst, flags), c.Name)
		dst = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, c.Type), uint32(c.Mod))
	}
	return dst
}
