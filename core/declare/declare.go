package declare

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// The arguments that have an effect.
const (
	MaxLengthBytes  = "max-length-bytes"
	MaxAge          = "max-age"
	MaxSegmentBytes = "stream-max-segment-size-bytes"
	FilterSize      = "stream-filter-size-bytes"
	LocalMaxBytes   = "local-max-bytes"
	LocalMinBytes   = "local-min-bytes"
)

// LeastBound is the smallest bound in bytes that means anything: a segment has to fit. Of a
// whole stream RabbitMQ takes less, so that is only asked for where it is set by hand.
const LeastBound = 4096

// maxSegment is the largest segment RabbitMQ takes: positions in an index have 32 bits.
const maxSegment = 3_000_000_000

// Declared is what the arguments ask for; 0 means that an argument was not given.
type Declared struct {
	MaxBytes        int64         // of the whole stream
	MaxAge          time.Duration // of the whole stream
	SegmentMaxBytes int64
	FilterSize      int // bytes, 16 to 255
	// The window on local disk: what it may hold at most, and what stays of it although
	// it is uploaded. nil: not given, since 0 says that nothing needs to stay.
	LocalMaxBytes int64
	LocalMinBytes *int64
}

// Parse reads the arguments. An error names the argument, its value and what is wanted.
func Parse(arguments map[string]string) (Declared, error) {
	var d Declared
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		if err := d.set(name, arguments[name]); err != nil {
			return Declared{}, fmt.Errorf("argument %s = %q: %w", name, arguments[name], err)
		}
	}
	return d, nil
}

func (d *Declared) set(name, value string) (err error) {
	switch name {
	case MaxLengthBytes:
		d.MaxBytes, err = number(value, 1, 1<<62)
	case MaxSegmentBytes:
		d.SegmentMaxBytes, err = number(value, 1, maxSegment)
	case FilterSize:
		var n int64
		n, err = number(value, 16, 255)
		d.FilterSize = int(n)
	case LocalMaxBytes:
		d.LocalMaxBytes, err = number(value, LeastBound, 1<<62)
	case LocalMinBytes:
		var n int64
		n, err = number(value, 0, 1<<62)
		d.LocalMinBytes = &n
	case MaxAge:
		d.MaxAge, err = age(value)
	}
	return err
}

func number(s string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("want a whole number from %d to %d", least, most)
	}
	return n, nil
}

// units are RabbitMQ's: Y has 365 days, M has 30.
var units = map[byte]time.Duration{
	'Y': 365 * 24 * time.Hour, 'M': 30 * 24 * time.Hour, 'D': 24 * time.Hour,
	'h': time.Hour, 'm': time.Minute, 's': time.Second,
}

const maxAge = 100 * 365 * 24 * time.Hour

// FormatAge prints an age as MaxAge takes it; what is below a second is rounded up.
func FormatAge(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10) + "s"
}

func age(s string) (time.Duration, error) {
	wanted := fmt.Errorf("want digits and one of Y M D h m s, for example 7D, at most 100Y")
	if s == "" {
		return 0, wanted
	}
	unit, ok := units[s[len(s)-1]]
	n, err := strconv.ParseInt(s[:len(s)-1], 10, 64)
	if !ok || err != nil || n < 1 || n > int64(maxAge/unit) {
		return 0, wanted
	}
	return time.Duration(n) * unit, nil
}
