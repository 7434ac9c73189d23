package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/core/pos"
)

// size prints bytes for people, with three digits that count.
func size(n int64) string {
	if n < 0 {
		return "unknown"
	}
	f, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if f < 1000 {
			break
		}
		f, unit = f/1024, next
	}
	switch {
	case unit == "B":
		return fmt.Sprintf("%d B", n)
	case f < 9.995:
		return fmt.Sprintf("%.2f %s", f, unit)
	case f < 99.95:
		return fmt.Sprintf("%.1f %s", f, unit)
	}
	return fmt.Sprintf("%.0f %s", f, unit)
}

// thousands prints a whole number of any type with its digits in groups.
func thousands(v any) string {
	digits := fmt.Sprintf("%d", v)
	if o, ok := v.(pos.Offset); ok {
		digits = strconv.FormatInt(int64(o), 10)
	}
	sign, rest := "", digits
	if strings.HasPrefix(rest, "-") {
		sign, rest = "-", rest[1:]
	}
	for i := len(rest) - 3; i > 0; i -= 3 {
		rest = rest[:i] + "," + rest[i:]
	}
	return sign + rest
}

// span prints a length of time by its two largest units.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// ago prints how long before now a moment was.
func ago(now, at time.Time) string { return span(max(0, now.Sub(at))) + " ago" }

// clock prints a moment as logs do, in UTC.
func clock(at time.Time) string { return at.UTC().Format("15:04:05") }
