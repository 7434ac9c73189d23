package pgout

import (
	"testing"

	"millrace/core/pos"
)

// BenchmarkChanges is the work of one inserted row from wire bytes to record.
func BenchmarkChanges(b *testing.B) {
	m := New(testConfig)
	v := goodSurvey()
	confirmed(v)
	v.Server.Publication.Tables = []Table{ordersTable}
	v.Loaded = []TableRow{{Key: TableKey("app", &ordersTable), Consistent: 100, Base: 100, SystemID: "7", Timeline: 1}}
	at := func() At { return At{Gen: m.gen, Now: 1} }
	var out []Effect
	for _, in := range []Input{&Up{At: at()}, &Surveyed{At: At{Gen: 1, Now: 1}, Survey: *v}, &Started{At: At{Gen: 1, Now: 1}, Held: Held{SystemID: "7", Timeline: 1, Flush: 900, Confirmed: 548}}} {
		out = m.Step(in, out[:0])
	}
	const rows = 1000
	var batch []Wal
	put := func(msg Message) { batch = append(batch, Wal{Data: Encode(nil, msg), End: 600}) }
	put(begin(600))
	put(orders)
	for range rows {
		put(&Insert{Relation: orders.OID, New: Tuple{text("1234567"), text("paid"), text("a note of some forty bytes, as notes are"), null}})
	}
	put(commit(600, 648))
	messages := make([]Wal, len(batch))
	lsn := pos.LSN(600)
	b.ReportAllocs()
	for b.Loop() {
		copy(messages, batch)
		lsn += 100
		messages[0].Data = Encode(nil, begin(lsn))
		messages[len(messages)-1].Data = Encode(nil, commit(lsn, lsn+48))
		out = m.Step(&Received{At: at(), Messages: messages}, out[:0])
		out = m.Step(&Appended{At: at(), Next: m.log.next}, out[:0])
		out = m.Step(&Synced{At: at(), Next: m.log.next}, out[:0])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
