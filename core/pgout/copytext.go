package pgout

import (
	"bytes"
	"fmt"
)

// ParseCopyLine reads one line of COPY's text format, with or without its line break,
// into a tuple of exactly columns values. Values without an escape are part of line,
// the others are appended to scratch, which is returned for the next use.
func ParseCopyLine(line []byte, columns int, into Tuple, scratch []byte) (Tuple, []byte, error) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	into = into[:0]
	if columns == 0 {
		if len(line) != 0 {
			return into, scratch, fmt.Errorf("COPY line of %d bytes: want no column", len(line))
		}
		return into, scratch, nil
	}
	for more := true; more; {
		var field []byte
		field, line, more = bytes.Cut(line, []byte{'\t'})
		if len(into) == columns {
			return into, scratch, fmt.Errorf("COPY line has more than %d columns", columns)
		}
		switch {
		case len(field) == 2 && field[0] == '\\' && field[1] == 'N':
			into = append(into, Value{Kind: Null})
		case bytes.IndexByte(field, '\\') < 0:
			into = append(into, Value{Kind: Text, Text: field})
		default:
			from := len(scratch)
			var err error
			if scratch, err = unescape(scratch, field); err != nil {
				return into, scratch, err
			}
			into = append(into, Value{Kind: Text, Text: scratch[from:len(scratch):len(scratch)]})
		}
	}
	if len(into) != columns {
		return into, scratch, fmt.Errorf("COPY line has %d columns, want %d", len(into), columns)
	}
	return into, scratch, nil
}

// unescape knows the escapes that COPY TO writes.
func unescape(dst, field []byte) ([]byte, error) {
	for i := 0; i < len(field); i++ {
		c := field[i]
		if c == '\\' {
			i++
			if i == len(field) {
				return dst, fmt.Errorf("COPY value ends in a backslash")
			}
			switch c = field[i]; c {
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'v':
				c = '\v'
			}
		}
		dst = append(dst, c)
	}
	return dst, nil
}

// AppendCopyLine writes t as COPY TO does, without the line break.
func AppendCopyLine(dst []byte, t Tuple) []byte {
	for i, v := range t {
		if i > 0 {
			dst = append(dst, '\t')
		}
		if v.Kind != Text {
			dst = append(dst, '\\', 'N')
			continue
		}
		for _, c := range v.Text {
			if at := bytes.IndexByte([]byte("\b\f\n\r\t\v\\"), c); at >= 0 {
				dst = append(dst, '\\', "bfnrtv\\"[at])
			} else {
				dst = append(dst, c)
			}
		}
	}
	return dst
}
