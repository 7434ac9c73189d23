package pgout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"

	"millrace/core/pos"
)

// Record is one record as the writer takes it: an AMQP data section and its filter value.
type Record struct {
	Body, Filter []byte
}

// Source is a record's source object.
type Source struct {
	LSN      pos.LSN
	Seq      int64
	Last     bool // the transaction's last record, or a table's load has ended
	TxID     uint32
	Micros   int64 // microseconds since 1970
	Schema   string
	Table    string
	Snapshot Snapshot
}

// Event is a record read back. The images are the JSON objects as they stand in the
// record, nil where there is none.
type Event struct {
	Op            Op
	Before, After json.RawMessage
	Unchanged     []string
	Omitted       map[string]int64
	Message       json.RawMessage
	Source        Source
	Made          pos.Millis // ts_ms

	sourceSum, imageSum uint64
}

// Position is where the event stands among the capture's records. Only a schema
// message shares its seq with a change; the message that ends a load has its own.
func (e *Event) Position() Position {
	return Position{LSN: e.Source.LSN, Seq: e.Source.Seq, Message: e.Op == OpMessage && e.Source.Snapshot == SnapshotNo}
}

type eventJSON struct {
	Op        string           `json:"op"`
	Before    json.RawMessage  `json:"before"`
	After     json.RawMessage  `json:"after"`
	Unchanged []string         `json:"unchanged"`
	Omitted   map[string]int64 `json:"omitted"`
	Message   json.RawMessage  `json:"message"`
	Source    *struct {
		LSN      string   `json:"lsn"`
		Seq      int64    `json:"seq"`
		Last     bool     `json:"last"`
		TxID     uint32   `json:"txId"`
		Micros   int64    `json:"ts_us"`
		Schema   string   `json:"schema"`
		Table    string   `json:"table"`
		Snapshot Snapshot `json:"snapshot"`
	} `json:"source"`
	Made int64 `json:"ts_ms"`
}

// DecodeRecord reads a record that a capture wrote. The error never holds the record's
// data.
func DecodeRecord(body []byte) (*Event, error) {
	payload, err := Section(body)
	if err != nil {
		return nil, err
	}
	var j eventJSON
	if err := json.Unmarshal(payload, &j); err != nil {
		return nil, fmt.Errorf("record of %d bytes is not a capture's: its data is not such JSON", len(body))
	}
	if len(j.Op) != 1 || j.Source == nil {
		return nil, fmt.Errorf("record of %d bytes is not a capture's: it has no op or no source", len(body))
	}
	lsn, err := pos.ParseLSN(j.Source.LSN)
	if err != nil {
		return nil, fmt.Errorf("record of %d bytes is not a capture's: %w", len(body), err)
	}
	e := &Event{Op: Op(j.Op[0]), Before: image(j.Before), After: image(j.After), Unchanged: j.Unchanged, Omitted: j.Omitted, Message: j.Message,
		Source: Source{LSN: lsn, Seq: j.Source.Seq, Last: j.Source.Last, TxID: j.Source.TxID, Micros: j.Source.Micros,
			Schema: j.Source.Schema, Table: j.Source.Table, Snapshot: j.Source.Snapshot}, Made: pos.Millis(j.Made)}
	e.sourceSum, e.imageSum = sums(payload)
	return e, nil
}

func image(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// sums digests a record's JSON without what may differ when the same event is written
// again: `last` and ts_ms. The marks cannot stand inside a string, where a quote is
// escaped, nor begin a column, whose value is never an object.
func sums(payload []byte) (source, image uint64) {
	from := bytes.LastIndex(payload, []byte(`,"source":{`))
	made := bytes.LastIndex(payload, []byte(`,"ts_ms":`))
	if from < 0 || made < from {
		return 0, 0
	}
	src := payload[from:made]
	if i := bytes.Index(src, []byte(`,"last":`)); i >= 0 {
		rest := src[i+1:]
		if end := bytes.IndexByte(rest, ','); end >= 0 {
			return sum(src[:i], rest[end:]), sum(payload[:from])
		}
	}
	return sum(src), sum(payload[:from])
}

func sum(parts ...[]byte) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum64()
}

// mayDiffer reports whether an image may differ between two writings of the same
// event: what is omitted depends on a setting.
func mayDiffer(payload []byte) bool { return bytes.Contains(payload, []byte(`,"omitted":{`)) }
