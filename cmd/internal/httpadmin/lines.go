package httpadmin

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"millrace/actors/admin"
	"millrace/core/pgout"
	"millrace/core/pos"
)

// keepBuffer bounds what a reading holds between two records: one large record must not
// cost its memory for as long as its reader follows.
const keepBuffer = 1 << 20

// lines writes NDJSON: records, notices, and at most one error line as the last.
type lines struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	buf  bytes.Buffer
	last pos.Offset // of the last record written
}

func newLines(w http.ResponseWriter) *lines {
	return &lines{w: w, rc: http.NewResponseController(w), last: pos.NoOffset}
}

// goneError means that the client takes nothing any more: there is nobody to tell.
type goneError struct{ err error }

func (e *goneError) Error() string { return "the client is gone: " + e.err.Error() }
func (e *goneError) Unwrap() error { return e.err }

// lift lifts the deadlines of a request: from here on only writing can stall.
func (l *lines) lift() error {
	if err := errors.Join(l.rc.SetReadDeadline(time.Time{}), l.rc.SetWriteDeadline(time.Now().Add(stallTime))); err != nil {
		return &goneError{err}
	}
	return nil
}

// flush sends what is gathered.
func (l *lines) flush() error {
	err := l.rc.SetWriteDeadline(time.Now().Add(stallTime))
	if err == nil {
		_, err = l.w.Write(l.buf.Bytes())
		l.buf.Reset()
		if l.buf.Cap() > keepBuffer {
			l.buf = bytes.Buffer{}
		}
	}
	if err == nil {
		err = l.rc.Flush()
	}
	if err != nil {
		return &goneError{err}
	}
	return nil
}

// record adds one record's line, and sends if much is gathered.
func (l *lines) record(rec admin.Record) error {
	b := &l.buf
	fmt.Fprintf(b, `{"offset":%d,"timestamp":"%s","epoch":%d,`, rec.Offset, rec.Timestamp, rec.Epoch)
	l.body(rec.Body)
	b.WriteString("}\n")
	l.last = rec.Offset
	if b.Len() < flushAt {
		return nil
	}
	return l.flush()
}

// body adds what is in the record: see the package comment.
func (l *lines) body(body []byte) {
	key, content := "message", body
	if section, err := pgout.Section(body); err == nil {
		key, content = "data", section
		start := l.buf.Len()
		l.buf.WriteString(`"record":`)
		// Compact checks the JSON, and takes out line breaks, which would end the line.
		if err := json.Compact(&l.buf, section); err == nil {
			return
		}
		l.buf.Truncate(start)
	}
	l.buf.WriteString(`"` + key + `":"`)
	l.buf.Write(base64.StdEncoding.AppendEncode(l.buf.AvailableBuffer(), content))
	l.buf.WriteByte('"')
}

// moved adds a notice.
func (l *lines) moved(m admin.Moved) error {
	return l.line(map[string]admin.Moved{"moved": m})
}

// fail sends the last line of an answer that broke off. If it does not arrive, the
// aborted connection says the same.
func (l *lines) fail(cause error) error {
	r := refusal(cause)
	if l.last != pos.NoOffset {
		next := l.last + 1
		r.Next = &next
	}
	if err := l.line(r); err != nil {
		return err
	}
	return l.flush()
}

func (l *lines) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("admin: writing a line: %w", err)
	}
	l.buf.Write(append(b, '\n'))
	return nil
}
