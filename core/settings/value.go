package settings

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parse reads a given value as the field's kind and checks its bounds.
func (f Field) parse(given any) (value, error) {
	switch f.Kind {
	case Flag:
		b, ok := given.(bool)
		if !ok {
			return value{}, fmt.Errorf("%s: want true or false, without quotes", show(given))
		}
		return value{flag: b}, nil
	case Count:
		n, ok := given.(int64)
		if !ok {
			return value{}, fmt.Errorf("%s: want a whole number, without quotes, %s", show(given), f.Bound())
		}
		return value{number: n}, f.bounded(n, show(given))
	case Size:
		n, err := sizeOf(given)
		if err != nil {
			return value{}, err
		}
		return value{number: n}, f.bounded(n, show(given))
	case Span:
		d, err := spanOf(given)
		if err != nil {
			return value{}, err
		}
		return value{number: int64(d)}, f.bounded(int64(d), show(given))
	case Text, Choice, Address:
	}
	text, ok := given.(string)
	if !ok {
		return value{}, fmt.Errorf("%s: want a string in quotes", show(given))
	}
	return value{text: text}, f.checkText(text)
}

func (f Field) checkText(text string) error {
	switch f.Kind {
	case Choice:
		if !slices.Contains(f.Choices, text) {
			hint := ""
			if word := nearest(text, f.Choices); word != "" {
				hint = meant(word)
			}
			return fmt.Errorf("%q: want %s%s", text, f.Bound(), hint)
		}
		return nil
	case Address:
		return checkLoopback(text)
	case Text, Flag, Count, Size, Span:
	}
	if n := int64(len(text)); n < f.Min || n > f.Max {
		return fmt.Errorf("has %d bytes: want %s", n, f.Bound())
	}
	if strings.ContainsAny(text, "\x00\r\n") {
		return errors.New("holds a line break or a zero byte")
	}
	if f.check != nil {
		return f.check(text)
	}
	return nil
}

func (f Field) bounded(n int64, shown string) error {
	if n >= f.Min && n <= f.Max || n == 0 && f.ZeroOff {
		return nil
	}
	return fmt.Errorf("%s: want %s", shown, f.Bound())
}

// Bound describes what the field accepts, as errors and the documentation say it.
func (f Field) Bound() string {
	switch f.Kind {
	case Choice:
		return "one of " + strings.Join(quoted(f.Choices), ", ")
	case Flag:
		return "true or false"
	case Address:
		return "a loopback host and a port, 0 to 65535"
	case Text, Count, Size, Span:
	}
	low, high := f.bare(f.Min), f.bare(f.Max)
	if f.Kind == Text && low == high {
		return low + " bytes long"
	}
	if f.Kind == Text {
		return low + " to " + high + " bytes long"
	}
	if f.ZeroOff {
		return "0, or " + low + " to " + high
	}
	return low + " to " + high
}

// bare prints a bound in the field's unit.
func (f Field) bare(n int64) string {
	switch f.Kind {
	case Size:
		return FormatSize(n)
	case Span:
		return FormatSpan(time.Duration(n))
	default:
		return strconv.FormatInt(n, 10)
	}
}

// fallback parses the field's own default. The table is checked by a test, so a
// default that does not parse is a bug here and panics.
func (f Field) fallback(s *Settings, name string) value {
	text := strings.NewReplacer("<data_dir>", strings.TrimSuffix(s.Node.DataDir, "/"), "<name>", name).Replace(f.Default)
	given := any(text)
	switch f.Kind {
	case Flag:
		given = text == "true"
	case Count:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic("settings: default of " + f.Key() + ": " + err.Error())
		}
		given = n
	case Text, Choice, Size, Span, Address:
	}
	if strings.Contains(f.Default, "<") { // built from a value that was or will be judged itself
		return value{text: text}
	}
	v, err := f.parse(given)
	if err != nil {
		panic("settings: default of " + f.Key() + ": " + err.Error())
	}
	return v
}

var units = []struct {
	suffix string
	bytes  int64
}{{"TiB", tib}, {"GiB", gib}, {"MiB", mib}, {"KiB", kib}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

// ParseSize reads a size in bytes: a whole number, or one with a unit: B, kB, MB,
// GB, TB (thousands) or KiB, MiB, GiB, TiB (1024s).
func ParseSize(s string) (int64, error) {
	digits, factor := s, int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			digits, factor = strings.TrimSuffix(rest, " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > math.MaxInt64/uint64(factor) {
		return 0, fmt.Errorf("%q: want a size such as \"64MiB\", \"500MB\" or a whole number of bytes", s)
	}
	return int64(n) * factor, nil
}

// FormatSize prints n in the largest unit of 1024 that divides it, as ParseSize reads it.
func FormatSize(n int64) string {
	for _, u := range units[:4] {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// ParseSpan reads a duration that is not negative: as Go prints them, or in whole
// days, "30d".
func ParseSpan(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 31)
		if err == nil && int64(n) <= math.MaxInt64/day {
			return time.Duration(int64(n) * day), nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%q: want a duration such as \"250ms\", \"5m\", \"36h\" or \"30d\"", s)
}

// FormatSpan prints d shortly, as ParseSpan reads it.
func FormatSpan(d time.Duration) string {
	if d > 0 && int64(d)%day == 0 {
		return strconv.FormatInt(int64(d)/day, 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func sizeOf(given any) (int64, error) {
	switch g := given.(type) {
	case int64:
		if g >= 0 {
			return g, nil
		}
	case string:
		return ParseSize(g)
	}
	return 0, fmt.Errorf("%s: want a size such as \"64MiB\", \"500MB\" or a whole number of bytes", show(given))
}

func spanOf(given any) (time.Duration, error) {
	if s, ok := given.(string); ok {
		return ParseSpan(s)
	}
	return 0, fmt.Errorf("%s: want a duration in quotes, such as \"250ms\", \"5m\", \"36h\" or \"30d\"", show(given))
}

func show(given any) string {
	switch g := given.(type) {
	case string:
		return strconv.Quote(g)
	case []any:
		return "an array"
	case map[string]any:
		return "a table"
	}
	return fmt.Sprint(given)
}

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strconv.Quote(w)
	}
	return out
}

// sorted walks a map in the order of its keys, so that faults come in one order.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
