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
	s.Captures = append([]Capture(nil), s.Captures...)
	s.Captures[i].URL = Secret(text)
	return s, nil
}
