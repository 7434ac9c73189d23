package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"millrace/core/pos"
)

// plain writes words to a terminal: what can't be seen there, or would change how the rest
// is seen, is written as Go writes it. Line breaks are ours.
type plain struct{ to io.Writer }

// Write implements io.Writer.
func (p plain) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.to, visible(string(b), '\n')); err != nil {
		return 0, err
	}
	return len(b), nil
}

// visible escapes what can't be seen, except for what is kept.
func visible(s string, keep ...rune) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) && !slices.Contains(keep, r) || r == utf8.RuneError }
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if hidden(r) {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// table prints rows in columns, each as wide as its widest cell.
func table(w io.Writer, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			cell = visible(cell)
			row[i] = cell
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// section prints what a process published, one line for each value in it.
func section(w io.Writer, title string, v any) {
	if v == nil {
		return
	}
	var rows [][]string
	flatten("", v, func(key, value string) { rows = append(rows, []string{"  " + key, value}) })
	fmt.Fprintf(w, "\n%s\n", title)
	table(w, rows)
}

// flatten walks decoded JSON in the order of its keys; nested keys are joined by dots.
func flatten(prefix string, v any, visit func(key, value string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			flatten(strings.TrimPrefix(prefix+"."+k, "."), v[k], visit)
		}
	case string:
		visit(prefix, v)
	default:
		b, err := json.Marshal(v)
		if err != nil {
			b = []byte(err.Error())
		}
		visit(prefix, string(b))
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// size prints bytes for people; a negative number is not known.
func size(n int64) string {
	if n < 0 {
		return "unknown"
	}
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n), []string{"KiB", "MiB", "GiB", "TiB", "PiB"}
	i := -1
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// count prints a number of things.
func count(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// span prints [first, next) by its first and last offset.
func span(first, next pos.Offset) string {
	if !first.Valid() || next <= first {
		return "nothing"
	}
	return fmt.Sprintf("offsets %s to %s", first, next-1)
}
