package pgout

import (
	"encoding/binary"
	"fmt"
)

// reader walks over a message. After the first error every read gives zero, so that
// a caller checks err once, at the end; loops must end on err themselves.
type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s at byte %d of %d", what, r.at, len(r.b))
	}
}

func (r *reader) take(n int, what string) []byte {
	if r.err != nil || n < 0 || len(r.b)-r.at < n {
		r.fail("no whole " + what)
		return nil
	}
	p := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	return p
}

func (r *reader) u8(what string) uint8 {
	if p := r.take(1, what); p != nil {
		return p[0]
	}
	return 0
}

func (r *reader) u16(what string) uint16 {
	if p := r.take(2, what); p != nil {
		return binary.BigEndian.Uint16(p)
	}
	return 0
}

func (r *reader) u32(what string) uint32 {
	if p := r.take(4, what); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

func (r *reader) u64(what string) uint64 {
	if p := r.take(8, what); p != nil {
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

// text reads a zero-terminated string.
func (r *reader) text(what string) string {
	if r.err != nil {
		return ""
	}
	for i := r.at; i < len(r.b); i++ {
		if r.b[i] == 0 {
			s := string(r.b[r.at:i])
			r.at = i + 1
			return s
		}
	}
	r.fail("no end of " + what)
	return ""
}

// count reads a number of things that take at least least bytes each, so that a bent
// count cannot ask for more memory than the message has bytes.
func (r *reader) count(n, least int, what string) int {
	if r.err == nil && n*least > len(r.b)-r.at {
		r.fail(fmt.Sprintf("no room for %d %s", n, what))
	}
	if r.err != nil {
		return 0
	}
	return n
}

func appendText(dst []byte, s string) []byte { return append(append(dst, s...), 0) }
