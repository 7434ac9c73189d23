package settings

import (
	"errors"
	"fmt"
	"strings"
)

// checkBucket holds the rules of S3 for a bucket's name.
func checkBucket(s string) error {
	for i := range len(s) {
		b := s[i]
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '-' && b != '.' {
			return fmt.Errorf("%q: byte %d is not allowed in a bucket's name: want a-z, 0-9, dots and dashes", s, i)
		}
	}
	if strings.Trim(s, "-.") != s || strings.Contains(s, "..") {
		return fmt.Errorf("%q: a bucket's name begins and ends with a letter or digit, and has no two dots in a row", s)
	}
	return nil
}

func checkRegion(s string) error {
	for i := range len(s) {
		if b := s[i]; (b|0x20 < 'a' || b|0x20 > 'z') && (b < '0' || b > '9') && b != '-' && b != '_' {
			return fmt.Errorf("%q: byte %d is not allowed in a region's name", s, i)
		}
	}
	return nil
}

// checkWord refuses what can't stand in a header.
func checkWord(s string) error {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return fmt.Errorf("byte %d is a blank, or not printable ASCII", i)
		}
	}
	return nil
}

func checkAccount(s string) error {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return fmt.Errorf("%q: want an account's id, 12 digits", s)
		}
	}
	return nil
}

// archived are the storage classes that need a restore before an object can be read.
var archived = []string{"GLACIER", "DEEP_ARCHIVE"}

func checkStorageClass(s string) error {
	for _, class := range archived {
		if s == class {
			return fmt.Errorf("%q: an object of this class can't be read until it is restored: want one that is read at once, for example \"GLACIER_IR\"", s)
		}
	}
	for i := range len(s) {
		if b := s[i]; (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '_' {
			return fmt.Errorf("%q: byte %d is not allowed in a storage class: want A-Z, 0-9 and _", s, i)
		}
	}
	return nil
}

var errEndpoint = errors.New("want https://host[:port] or http://host[:port], and nothing behind it")

func checkEndpoint(s string) error {
	_, host, ok := splitEndpoint(s)
	if !ok || host == "" {
		return errEndpoint
	}
	inside := false // brackets of an IPv6 address
	for i := range len(host) {
		switch b := host[i]; {
		case b == '[' && i == 0:
			inside = true
		case b == ']' && inside:
			inside = false
		case b == ':' && (inside || strings.Count(host[i:], ":") == 1):
		case b|0x20 >= 'a' && b|0x20 <= 'z', b >= '0' && b <= '9', b == '-', b == '.', b == '_':
		default:
			return errEndpoint
		}
	}
	if inside {
		return errEndpoint
	}
	return nil
}

// splitEndpoint takes an endpoint apart; one slash at its end is let pass.
func splitEndpoint(s string) (secure bool, host string, ok bool) {
	if host, ok = strings.CutPrefix(s, "https://"); ok {
		return true, strings.TrimSuffix(host, "/"), true
	}
	host, ok = strings.CutPrefix(s, "http://")
	return false, strings.TrimSuffix(host, "/"), ok
}

// store checks the keys of [store] against each other. given are those in the file.
func (p *parser) store(given map[string]any) {
	s := p.out.Store
	foreign := false
	for _, f := range Fields() {
		if _, set := given[f.Name]; f.Section == "store" && set && f.Of != "" && f.Of != s.Kind {
			p.fail(f.Key(), 0, "only store.kind = %q has this key, and the kind is %q: take it out, or set the kind", f.Of, s.Kind)
			foreign = true
		}
	}
	if s.Kind != StoreS3 || foreign {
		return
	}
	if s.S3.Bucket == "" && given["bucket"] == nil {
		p.fail("store.bucket", 0, "required: kind = %q needs the name of a bucket", StoreS3)
	}
	if s.S3.Region == "" && given["region"] == nil && given["endpoint"] == nil {
		p.fail("store.region", 0, "required: set the bucket's region, or the endpoint of another server")
	}
	if s.S3.KMSKeyID != "" && s.S3.Encryption != EncryptKMS {
		p.fail("store.kms_key_id", 0, "has no use without server_side_encryption = %q: set that, or take the key out", EncryptKMS)
	}
	p.staticKeys(s.S3)
	p.warnOfStore(s.S3)
}

// staticKeys checks that a key which never expires is whole, and allowed.
func (p *parser) staticKeys(s S3) {
	key, secret := s.AccessKeyID != "", "secret_key_file"
	if s.SecretKeyFile == "" {
		secret = "secret_key_env"
	}
	hasSecret := s.SecretKeyFile != "" || s.SecretKeyEnv != ""
	switch {
	case s.SecretKeyFile != "" && s.SecretKeyEnv != "":
		p.fail("store.secret_key_env", 0, "secret_key_file and secret_key_env are both set: exactly one is allowed")
	case hasSecret && !key:
		p.fail("store."+secret, 0, "has no use without access_key_id")
	case key && !hasSecret:
		p.fail("store.access_key_id", 0, "its secret is missing: set secret_key_file or secret_key_env")
	}
	if key && !s.AllowStatic {
		p.fail("store.access_key_id", 0, "keys that never expire are refused: give the node a role or a profile, or set allow_static_credentials = true")
	}
	if key && s.Profile != "" {
		p.fail("store.profile", 0, "access_key_id and profile are both set: exactly one is allowed")
	}
}

func (p *parser) warnOfStore(s S3) {
	secure, host, ok := splitEndpoint(s.Endpoint)
	if ok && !secure && checkLoopback(withPort(host)) != nil {
		p.out.Warnings = append(p.out.Warnings, "store.endpoint: objects cross the network in clear; use https")
	}
	if strings.Contains(s.Bucket, ".") && !s.PathStyle && (secure || !ok) {
		p.out.Warnings = append(p.out.Warnings, "store.bucket: a bucket with a dot in its name fits no certificate; set path_style = true")
	}
}

// withPort is host with a port, as checkLoopback wants it.
func withPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host
	}
	return host + ":80"
}

// FillSecretKey returns s with the secret of the store's access key set to what its file or
// environment variable holds.
func (s Settings) FillSecretKey(text string) (Settings, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return s, errors.New("is empty: want the secret of store.access_key_id")
	}
	if err := checkWord(text); err != nil {
		return s, fmt.Errorf("want the secret of store.access_key_id, but %w", err)
	}
	s.Store.S3.SecretKey = Secret(text)
	return s, nil
}
