package pgout

import (
	"math/bits"
	"strconv"
	"unicode/utf8"

	"millrace/core/pos"
)

// Type OIDs whose text is written as a JSON number or boolean. They are built into
// PostgreSQL and the same on every server.
const (
	oidBool   = 16
	oidInt8   = 20
	oidInt2   = 21
	oidInt4   = 23
	oidFloat4 = 700
	oidFloat8 = 701
)

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r != utf8.RuneError || n != 1 {
				i += n
				continue
			}
			dst = append(append(dst, s[from:i]...), "\ufffd"...)
		} else {
			dst = appendEscape(append(dst, s[from:i]...), c)
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendValue appends PostgreSQL's text of a value of the given type.
func appendValue(dst []byte, oid uint32, text []byte) []byte {
	switch oid {
	case oidBool:
		if len(text) == 1 && text[0] == 't' {
			return append(dst, "true"...)
		}
		if len(text) == 1 && text[0] == 'f' {
			return append(dst, "false"...)
		}
	case oidInt2, oidInt4, oidInt8, oidFloat4, oidFloat8:
		if isNumber(text) {
			return append(dst, text...)
		}
	}
	return appendString(dst, text)
}

// isNumber reports whether b is a JSON number.
func isNumber(b []byte) bool {
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	whole := digits(b)
	if whole == 0 || whole > 1 && b[0] == '0' {
		return false
	}
	b = b[whole:]
	if len(b) > 0 && b[0] == '.' {
		n := digits(b[1:])
		if n == 0 {
			return false
		}
		b = b[1+n:]
	}
	if len(b) > 0 && (b[0] == 'e' || b[0] == 'E') {
		b = b[1:]
		if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		n := digits(b)
		return n > 0 && n == len(b)
	}
	return len(b) == 0
}

func digits(b []byte) int {
	n := 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	return n
}

// appendLSN appends what LSN.String prints.
func appendLSN(dst []byte, l pos.LSN) []byte {
	return appendHex(append(appendHex(dst, uint32(l>>32)), '/'), uint32(l))
}

func appendHex(dst []byte, n uint32) []byte {
	digits := max(1, (bits.Len32(n)+3)/4)
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, "0123456789ABCDEF"[n>>(4*i)&15])
	}
	return dst
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }
