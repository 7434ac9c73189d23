package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"millrace/core/settings"
)

// maxFile bounds the configuration and each connection string's file, in bytes.
const maxFile = 1 << 20

// maxFaults bounds how many faults are looked up and shown at once: each look-up
// decodes the file anew.
const maxFaults = 20

// Load reads the file at path, with the secrets it refers to. An empty
// path stands for the embedded defaults. The error has one line for each fault,
// "path:line:column: key: what is wrong".
func Load(path string) (settings.Settings, error) {
	s, err := Read(path)
	if err != nil {
		return s, err
	}
	return secrets(s)
}

// Read is Load without the secrets: what a command needs that only
// talks to a node, and may run where the node's secrets are out of reach.
func Read(path string) (settings.Settings, error) {
	if path == "" {
		return settings.Default(), nil
	}
	text, err := readSmall(path)
	if err != nil {
		return settings.Settings{}, fmt.Errorf("configuration: %w", err)
	}
	return parse(path, text)
}

// secrets fills in each capture's connection string, and the secret of the store's key.
func secrets(s settings.Settings) (settings.Settings, error) {
	var faults []error
	for i, c := range s.Captures {
		text, key, err := secret("url", c.URLFile, c.URLEnv, "the connection string")
		if err == nil && key != "" {
			s, err = s.FillURL(i, text)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("capture[%d].%s: %w", i, key, err))
		}
	}
	text, key, err := secret("secret_key", s.Store.S3.SecretKeyFile, s.Store.S3.SecretKeyEnv, "the secret of store.access_key_id")
	if err == nil && key != "" {
		s, err = s.FillSecretKey(text)
	}
	if err != nil {
		faults = append(faults, fmt.Errorf("store.%s: %w", key, err))
	}
	return s, errors.Join(faults...)
}

// secret returns what the file or the environment variable holds that stands for the key
// name; key is the one that is set, "" if neither is.
func secret(name, file, env, what string) (text, key string, err error) {
	switch {
	case file != "":
		b, err := readSmall(file)
		return string(b), name + "_file", err
	case env != "":
		text, ok := os.LookupEnv(env)
		if !ok {
			return "", name + "_env", fmt.Errorf("environment variable %s is not set: set it to %s", env, what)
		}
		return text, name + "_env", nil
	}
	return "", "", nil
}

func readSmall(path string) (b []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s has more than %s: is it the right file?", path, settings.FormatSize(maxFile))
	}
	return b, err
}

// parse decodes and checks text; path is for the errors only.
func parse(path string, text []byte) (settings.Settings, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // editors that write a byte order mark
	raw, err := decode(text)
	if err != nil {
		return settings.Settings{}, placed(path, err)
	}
	s, err := settings.Parse(raw)
	var faults settings.Faults
	if !errors.As(err, &faults) {
		return s, err
	}
	var lines places
	for i, f := range faults {
		if i == maxFaults {
			lines = append(lines, place{what: fmt.Sprintf("and %d more", len(faults)-i)})
			break
		}
		lines = append(lines, locate(text, f))
	}
	return settings.Settings{}, placed(path, lines)
}

// place is one fault and where it stands; line 0: nowhere in particular.
type place struct {
	line, column int
	what         string
}

// places is every fault of one file.
type places []place

func (ps places) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.what
		if p.line > 0 {
			lines[i] = fmt.Sprintf("%d:%d: %s", p.line, p.column, p.what)
		}
	}
	return strings.Join(lines, "\n")
}

// placed puts the file's name before each fault.
func placed(path string, err error) error {
	var ps places
	if !errors.As(err, &ps) {
		return fmt.Errorf("%s: %w", path, err)
	}
	out := make([]error, len(ps))
	for i, p := range ps {
		sep := ": "
		if p.line > 0 {
			sep = ":"
		}
		out[i] = errors.New(path + sep + places{p}.Error())
	}
	return errors.Join(out...)
}
