package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"millrace/core/pos"
)

func checkNodeID(s string) error {
	_, err := pos.ParseNodeID(s)
	return err
}

func checkStream(s string) error { return pos.CheckStreamName(s) }

func checkCaptureName(s string) error {
	return lowerWord(s, "a capture's name (it also names the slot and the publication)")
}

// checkSlot holds what PostgreSQL accepts as a slot's name.
func checkSlot(s string) error { return lowerWord(s, "a replication slot's name") }

func lowerWord(s, what string) error {
	for i := range len(s) {
		if b := s[i]; (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '_' {
			return fmt.Errorf("%q: byte %d is not allowed in %s: want a-z, 0-9 and _", s, i, what)
		}
	}
	return nil
}

func checkPrefix(s string) error {
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("%q: want parts joined by single slashes, none of them empty, \".\" or \"..\"", s)
		}
		for i := range len(part) {
			b := part[i] | 0x20
			if (b < 'a' || b > 'z') && (part[i] < '0' || part[i] > '9') && !strings.ContainsRune("_-.", rune(part[i])) {
				return fmt.Errorf("%q: %q is not allowed: want letters, digits, _, -, . and inner slashes", s, part[i])
			}
		}
	}
	return nil
}

// checkLoopback refuses an address that others could reach: the surface has a
// token but no TLS.
func checkLoopback(s string) error {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return fmt.Errorf("%q: want host:port, for example 127.0.0.1:7077", s)
	}
	host, port := s[:colon], s[colon+1:]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("%q: port %q: want a number, 0 to 65535", s, port)
	}
	if host == "localhost" || host == "[::1]" || loopback4(host) {
		return nil
	}
	return fmt.Errorf("%q: want a loopback host (127.0.0.1, [::1] or localhost), because the token would cross the network in clear; "+
		"to reach the node from elsewhere use ssh -L or a TLS proxy on this machine", s)
}

func loopback4(host string) bool {
	parts := strings.Split(host, ".")
	if len(parts) != 4 || parts[0] != "127" {
		return false
	}
	for _, p := range parts {
		if n, err := strconv.ParseUint(p, 10, 8); err != nil || strconv.FormatUint(n, 10) != p {
			return false
		}
	}
	return true
}

var errConnection = errors.New("want a connection string of PostgreSQL: postgres://user@host:port/database, or pairs such as host=db user=millrace dbname=shop")

// checkConnection holds what a connection string of PostgreSQL looks like, in either of
// the two forms that its clients know. The error never repeats it: it may hold a password.
func checkConnection(text string) error {
	for _, scheme := range []string{"postgres://", "postgresql://"} {
		if rest, ok := strings.CutPrefix(text, scheme); ok {
			return checkAddress(rest)
		}
	}
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		key, value, ok := strings.Cut(rest, "=")
		if !ok || !isOption(strings.TrimSpace(key)) {
			return errConnection
		}
		if rest, ok = cutValue(strings.TrimLeft(value, " \t\r\n")); !ok {
			return errors.New("a quoted value in the connection string has no end: close it with ', and write \\' for a ' in it")
		}
	}
	return nil
}

// checkAddress checks what follows the scheme of a connection URL.
func checkAddress(rest string) error {
	if strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return errors.New("the connection URL holds a blank: write %20 for one in a password")
	}
	for i, part := range strings.Split(rest, "%") {
		if i == 0 {
			continue
		}
		if len(part) < 2 || !isHex(part[0]) || !isHex(part[1]) {
			return errors.New("the connection URL holds a % without two hexadecimal digits behind it: write %25 for one in a password")
		}
	}
	return nil
}

func isHex(b byte) bool {
	return b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'f'
}

func isOption(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9') && r != '_' && r != '.'
	})
}

// cutValue takes one value of a pair off the front; ok is false if its quote is open.
func cutValue(s string) (rest string, ok bool) {
	quoted := strings.HasPrefix(s, "'")
	if quoted {
		s = s[1:]
	}
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case quoted && s[i] == '\'':
			return s[i+1:], true
		case !quoted && strings.IndexByte(" \t\r\n", s[i]) >= 0:
			return s[i:], true
		}
	}
	return "", !quoted
}

// holdsPassword reports whether a connection string names a password itself, in
// either of the two forms that PostgreSQL's clients know.
func holdsPassword(url Secret) bool {
	text := url.Reveal()
	if _, rest, ok := strings.Cut(text, "://"); ok {
		authority, _, _ := strings.Cut(rest, "/")
		user, _, has := strings.Cut(authority, "@")
		if has && strings.Contains(user, ":") {
			return true
		}
	}
	return strings.Contains(text, "password=")
}

// FillURL returns s with the connection string of capture i set to what its file
// or environment variable holds.
func (s Settings) FillURL(i int, text string) (Settings, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return s, errors.New("is empty: want a connection string, postgres://user:password@host:port/database")
	}
	if err := checkConnection(text); err != nil {
		return s, err
	}
	s.Captures = append([]Capture(nil), s.Captures...)
	s.Captures[i].URL = Secret(text)
	return s, nil
}
