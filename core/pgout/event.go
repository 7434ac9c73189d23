package pgout

import (
	"millrace/core/pos"
)

// Op says what an event does.
type Op byte

// The operations.
const (
	OpCreate   Op = 'c'
	OpUpdate   Op = 'u'
	OpDelete   Op = 'd'
	OpRead     Op = 'r' // a row of the load
	OpTruncate Op = 't'
	OpMessage  Op = 'm'
)

// Snapshot says whether an event comes from the load.
type Snapshot string

// The values of source.snapshot.
const (
	SnapshotNo    Snapshot = "no"
	SnapshotFirst Snapshot = "first" // a void: the table is empty from here on
	SnapshotYes   Snapshot = "yes"
	SnapshotLast  Snapshot = "last" // the load of this table has ended
)

// source is where an event comes from; last is decided when the event is sealed.
type source struct {
	at       Position
	xid      uint32
	micros   int64
	snapshot Snapshot
}

// draft is an event whose `last` is not decided yet: json holds "false" at last.
type draft struct {
	json   []byte
	last   int
	rel    *Relation
	source source
}

const (
	falseText = "false"
	trueText  = "true"
)

// seal appends the finished record to dst.
func (d *draft) seal(dst []byte, last bool) []byte {
	if last {
		rest := d.last + len(falseText)
		n := copy(d.json[d.last:], trueText)
		n += copy(d.json[d.last+n:], d.json[rest:])
		d.json = d.json[:d.last+n]
	}
	return AppendSection(dst, d.json)
}

// pen writes events. The draft it returns is valid until the next one.
type pen struct {
	maxValue int64 // a larger value is omitted
	room     int   // bytes of one record: a value that would pass it is omitted too
	draft    draft
	omitted  []omission
}

type omission struct {
	column string
	size   int
}

// maxRecord is a pen's room: a chunk takes records of nearly 1 GiB.
const maxRecord = 512 << 20

// row writes c, u, d or r. old is what came of the old row, fresh the new one; nil
// where there is none.
func (p *pen) row(op Op, rel *Relation, kind OldKind, old, fresh Tuple, src source, now pos.Millis) *draft {
	p.omitted = p.omitted[:0]
	b := append(p.draft.json[:0], `{"op":"`...)
	b = append(append(b, byte(op)), `","before":`...)
	if kind == OldNone {
		b = append(b, "null"...)
	} else {
		b = p.image(b, rel, old, kind == OldKey)
	}
	b = append(b, `,"after":`...)
	if fresh == nil {
		b = append(b, "null"...)
	} else {
		b = p.image(b, rel, fresh, false)
		b = appendUnchanged(b, rel, fresh)
	}
	b = p.appendOmitted(b)
	return p.finish(b, rel, src, now)
}

// truncate writes t.
func (p *pen) truncate(rel *Relation, src source, now pos.Millis) *draft {
	return p.finish(append(p.draft.json[:0], `{"op":"t"`...), rel, src, now)
}

// schema writes the m that tells a table's shape, loaded the one that ends its load,
// end the one that closes a transaction of which no change is left to write.
func (p *pen) schema(rel *Relation, src source, now pos.Millis) *draft {
	b := append(p.draft.json[:0], `{"op":"m","message":{"kind":"schema"`...)
	return p.finish(append(appendShape(b, rel), '}'), rel, src, now)
}

func (p *pen) end(rel *Relation, src source, now pos.Millis) *draft {
	return p.finish(append(p.draft.json[:0], `{"op":"m","message":{"kind":"end"}`...), rel, src, now)
}

func (p *pen) loaded(rel *Relation, rows int64, lsn pos.LSN, src source, now pos.Millis) *draft {
	b := append(p.draft.json[:0], `{"op":"m","message":{"kind":"loaded","rows":`...)
	b = append(appendInt(b, rows), `,"lsn":`...)
	b = appendString(b, lsn.String())
	return p.finish(append(appendShape(b, rel), '}'), rel, src, now)
}

func appendShape(b []byte, rel *Relation) []byte {
	b = append(b, `,"identity":"`...)
	b = append(append(b, byte(rel.Identity)), `","columns":[`...)
	for i, c := range rel.Columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(b, `{"name":`...), c.Name)
		b = appendInt(append(b, `,"type_oid":`...), int64(c.Type))
		b = appendInt(append(b, `,"type_mod":`...), int64(c.Mod))
		b = append(append(b, `,"key":`...), boolText(c.Key)...)
		b = append(b, '}')
	}
	return append(b, ']')
}

func (p *pen) image(b []byte, rel *Relation, t Tuple, keyOnly bool) []byte {
	b = append(b, '{')
	open := len(b)
	for i := range t {
		c := &rel.Columns[i]
		if keyOnly && !c.Key || t[i].Kind == Unchanged {
			continue
		}
		size, from := len(t[i].Text), len(b)
		if int64(size) <= p.maxValue && from+size <= p.room {
			if from > open {
				b = append(b, ',')
			}
			b = append(appendString(b, c.Name), ':')
			if t[i].Kind == Null {
				b = append(b, "null"...)
			} else {
				b = appendValue(b, c.Type, t[i].Text)
			}
			if len(b) <= p.room {
				continue
			}
		}
		b = b[:from]
		p.omitted = append(p.omitted, omission{c.Name, size})
	}
	return append(b, '}')
}

func appendUnchanged(b []byte, rel *Relation, t Tuple) []byte {
	open := false
	for i := range t {
		if t[i].Kind != Unchanged {
			continue
		}
		if open {
			b = append(b, ',')
		} else {
			b = append(b, `,"unchanged":[`...)
		}
		open = true
		b = appendString(b, rel.Columns[i].Name)
	}
	if open {
		b = append(b, ']')
	}
	return b
}

// appendOmitted names each column once, with the larger size where both images had it.
func (p *pen) appendOmitted(b []byte) []byte {
	if len(p.omitted) == 0 {
		return b
	}
	b = append(b, `,"omitted":{`...)
	comma := false
	for i, o := range p.omitted {
		twice := false
		for j, other := range p.omitted {
			twice = twice || other.column == o.column && (other.size > o.size || other.size == o.size && j < i)
		}
		if twice {
			continue
		}
		if comma {
			b = append(b, ',')
		}
		comma = true
		b = appendInt(append(appendString(b, o.column), ':'), int64(o.size))
	}
	return append(b, '}')
}

func (p *pen) finish(b []byte, rel *Relation, src source, now pos.Millis) *draft {
	b = append(b, `,"source":{"lsn":"`...)
	b = append(appendLSN(b, src.at.LSN), `","seq":`...)
	b = append(appendInt(b, src.at.Seq), `,"last":`...)
	last := len(b)
	b = append(append(b, falseText...), `,"txId":`...)
	b = append(appendInt(b, int64(src.xid)), `,"ts_us":`...)
	b = append(appendInt(b, src.micros), `,"schema":`...)
	b = append(appendString(b, rel.Schema), `,"table":`...)
	b = append(appendString(b, rel.Name), `,"snapshot":"`...)
	b = append(append(b, src.snapshot...), `"},"ts_ms":`...)
	b = append(appendInt(b, int64(now)), '}')
	p.draft = draft{json: b, last: last, rel: rel, source: src}
	return &p.draft
}

func boolText(v bool) string {
	if v {
		return trueText
	}
	return falseText
}
