package httpadmin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	tokenBytes = 32   // of randomness in a token that is made here
	minToken   = 16   // characters of one that is given
	maxToken   = 4096 // bytes of the file
)

// ReadToken reads the token at path.
func ReadToken(path string) (token string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return "", fmt.Errorf("admin token: everyone may read %s: run chmod 600 on it, and replace the token if others use this machine", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	token = strings.TrimSpace(string(b))
	if len(token) < minToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("admin token: %s does not hold %d or more printable characters: delete it, and the node writes a new one when it starts", path, minToken)
	}
	return token, nil
}

// loadToken reads the token at path, after writing one if there is no such file.
func loadToken(path string) (string, error) {
	token, err := ReadToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := writeToken(path); err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	return ReadToken(path)
}

// writeToken makes a fresh token at path. The file appears whole or not at all, and
// never replaces one that another process made meanwhile.
func writeToken(path string) (err error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(folder, ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(tmp.Name())) }()
	secret := make([]byte, tokenBytes)
	if _, err := rand.Read(secret); err != nil {
		return errors.Join(err, tmp.Close())
	}
	_, err = tmp.WriteString(base64.RawURLEncoding.EncodeToString(secret) + "\n")
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// sameToken compares in a time that tells nothing about where the two differ.
func sameToken(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
