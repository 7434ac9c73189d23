package pgout

import (
	"encoding/binary"

	"millrace/core/pos"
)

// epoch2000 is PostgreSQL's epoch, 2000-01-01 UTC, in microseconds since 1970.
const epoch2000 = 946684800 * 1000000

func readBegin(r *reader, m *Begin) Message {
	*m = Begin{Final: pos.LSN(r.u64("final LSN")), Micros: int64(r.u64("commit time")) + epoch2000, XID: r.u32("xid")}
	return m
}

func (m *Begin) encode(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, 'B'), uint64(m.Final))
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.Micros-epoch2000))
	return binary.BigEndian.AppendUint32(dst, m.XID)
}

func readCommit(r *reader, m *Commit) Message {
	*m = Commit{Flags: r.u8("flags"), Final: pos.LSN(r.u64("commit LSN")), End: pos.LSN(r.u64("end LSN")),
		Micros: int64(r.u64("commit time")) + epoch2000}
	return m
}

func (m *Commit) encode(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, 'C', m.Flags), uint64(m.Final))
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.End))
	return binary.BigEndian.AppendUint64(dst, uint64(m.Micros-epoch2000))
}

func readOrigin(r *reader, m *Origin) Message {
	*m = Origin{Final: pos.LSN(r.u64("origin LSN")), Name: r.text("origin name")}
	return m
}

func (m *Origin) encode(dst []byte) []byte {
	return appendText(binary.BigEndian.AppendUint64(append(dst, 'O'), uint64(m.Final)), m.Name)
}

func readTypeName(r *reader, m *TypeName) Message {
	*m = TypeName{OID: r.u32("type oid"), Schema: r.text("type schema"), Name: r.text("type name")}
	return m
}

func (m *TypeName) encode(dst []byte) []byte {
	return appendText(appendText(binary.BigEndian.AppendUint32(append(dst, 'Y'), m.OID), m.Schema), m.Name)
}

func readLogical(r *reader, m *Logical) Message {
	*m = Logical{Transactional: r.u8("flags")&1 != 0, LSN: pos.LSN(r.u64("LSN")), Prefix: r.text("prefix")}
	m.Content = r.take(int(int32(r.u32("length"))), "content")
	return m
}

func (m *Logical) encode(dst []byte) []byte {
	flags := byte(0)
	if m.Transactional {
		flags = 1
	}
	dst = binary.BigEndian.AppendUint64(append(dst, 'M', flags), uint64(m.LSN))
	dst = binary.BigEndian.AppendUint32(appendText(dst, m.Prefix), uint32(len(m.Content)))
	return append(dst, m.Content...)
}
