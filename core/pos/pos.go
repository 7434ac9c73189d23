package pos

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Offset is a record's position in a stream, from 0. Where a function speaks of a
// "next" offset it means the one after the last record, so ranges are half open.
type Offset int64

// NoOffset stands for "not known" and "none": 0 is a valid offset.
const NoOffset Offset = -1

// Valid reports whether o can be the offset of a record.
func (o Offset) Valid() bool { return o >= 0 }

// String prints o in decimal; NoOffset prints as "none".
func (o Offset) String() string {
	if o < 0 {
		return "none"
	}
	return strconv.FormatInt(int64(o), 10)
}

// ParseOffset reads what String prints.
func ParseOffset(s string) (Offset, error) {
	if s == "none" {
		return NoOffset, nil
	}
	n, err := parseDecimal("offset", s, 63)
	return Offset(n), err
}

// Epoch numbers the writers of one stream, from 1; 0 means that none wrote yet.
type Epoch uint64

// IsZero reports whether no writer is meant.
func (e Epoch) IsZero() bool { return e == 0 }

// String prints e in decimal.
func (e Epoch) String() string { return strconv.FormatUint(uint64(e), 10) }

// ParseEpoch reads what String prints.
func ParseEpoch(s string) (Epoch, error) {
	n, err := parseDecimal("epoch", s, 64)
	return Epoch(n), err
}

// Revision counts the changes of one stored row or pointer, from 1; 0 means that
// nothing is stored yet. A revision is never used twice within one stream.
type Revision uint64

// IsZero reports whether nothing is stored yet.
func (r Revision) IsZero() bool { return r == 0 }

// String prints r in decimal.
func (r Revision) String() string { return strconv.FormatUint(uint64(r), 10) }

// ParseRevision reads what String prints.
func ParseRevision(s string) (Revision, error) {
	n, err := parseDecimal("revision", s, 64)
	return Revision(n), err
}

// LSN is a byte position in PostgreSQL's write-ahead log.
type LSN uint64

// IsZero reports whether no position is meant: PostgreSQL's InvalidXLogRecPtr.
func (l LSN) IsZero() bool { return l == 0 }

// String prints l as PostgreSQL does, for example "1/A3000028".
func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)) }

// ParseLSN reads what String prints, and what PostgreSQL's pg_lsn accepts.
func ParseLSN(s string) (LSN, error) {
	hi, lo, ok := strings.Cut(s, "/")
	if !ok || len(hi) == 0 || len(hi) > 8 || len(lo) == 0 || len(lo) > 8 {
		return 0, fmt.Errorf("LSN %q: want two hexadecimal numbers of at most 8 digits joined by a slash", s)
	}
	h, errHi := strconv.ParseUint(hi, 16, 32)
	l, errLo := strconv.ParseUint(lo, 16, 32)
	if errHi != nil || errLo != nil {
		return 0, fmt.Errorf("LSN %q: want two hexadecimal numbers of at most 8 digits joined by a slash", s)
	}
	return LSN(h<<32 | l), nil
}

// Millis is a time in milliseconds since 1970-01-01 UTC, as chunk headers hold it.
type Millis int64

// NoMillis stands for "no time known".
const NoMillis Millis = -1

// IsZero reports whether m is not set.
func (m Millis) IsZero() bool { return m == 0 }

// Time returns m as a time in UTC.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// Add returns m moved by d, rounded down to whole milliseconds.
func (m Millis) Add(d time.Duration) Millis { return m + Millis(d.Milliseconds()) }

// Sub returns the time from o to m.
func (m Millis) Sub(o Millis) time.Duration { return time.Duration(m-o) * time.Millisecond }

// MillisOf returns t in milliseconds.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }

// String prints m as RFC 3339 with milliseconds, in UTC.
func (m Millis) String() string { return m.Time().Format("2006-01-02T15:04:05.000Z") }

// ParseMillis reads what String prints, and any RFC 3339 time.
func ParseMillis(s string) (Millis, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, fmt.Errorf("time %q: want RFC 3339, for example 2026-03-01T12:00:00Z", s)
	}
	return MillisOf(t), nil
}

// UID is a random number that makes a name unique: of an object, a ballot, a boot.
type UID uint64

// IsZero reports whether no uid was drawn.
func (u UID) IsZero() bool { return u == 0 }

// String prints u as 16 lower-case hexadecimal digits.
func (u UID) String() string { return fmt.Sprintf("%016x", uint64(u)) }

// ParseUID reads what String prints.
func ParseUID(s string) (UID, error) {
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 || s != strings.ToLower(s) {
		return 0, fmt.Errorf("uid %q: want 16 lower-case hexadecimal digits", s)
	}
	return UID(n), nil
}

func parseDecimal(what, s string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil || s != strconv.FormatUint(n, 10) {
		return 0, fmt.Errorf("%s %q: want a decimal number of at most %d bits", what, s, bits)
	}
	return n, nil
}
