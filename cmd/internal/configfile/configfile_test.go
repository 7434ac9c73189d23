package configfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/core/settings"
)

// write puts text into a file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNoFileMeansDefaults(t *testing.T) {
	s, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", s), fmt.Sprintf("%+v", settings.Default()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The sample in docs/configuration.md loads, and says what holds without it.
func TestTheDocumentedSampleIsTheDefaults(t *testing.T) {
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "```toml\n")
	sample, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("docs/configuration.md has no toml block")
	}
	s, err := Load(write(t, "m.toml", sample))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", s), fmt.Sprintf("%+v", settings.Default()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEveryKindIsRead(t *testing.T) {
	s, err := Load(write(t, "m.toml", `
[log]
sync = "never"
segment_max_bytes = "1MiB"
[local]
max_bytes = 5_000_000
[tiering]
enabled = false
persist_edits = 7
persist_interval = "250ms"
[[capture]]
name = "shop"
url = "postgres://u@h/shop"
[[capture]]
name = "depot"
url = "postgres://u@h/depot"
max_value = "1MiB"
`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Log.Sync != settings.SyncNever || s.Log.SegmentMaxBytes != 1<<20 || s.Local.MaxBytes != 5_000_000 ||
		s.Tiering.Enabled || s.Tiering.PersistEdits != 7 || s.Tiering.PersistInterval != 250*time.Millisecond {
		t.Errorf("got %+v", s)
	}
	if len(s.Captures) != 2 || s.Captures[1].Name != "depot" || s.Captures[1].MaxValue != 1<<20 || s.Captures[0].URL.Reveal() != "postgres://u@h/shop" {
		t.Errorf("captures are %+v", s.Captures)
	}
}

// Faults are shown where they stand: line, column, key, bound or nearest key.
func TestFaultsArePlaced(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"key of no section", "foo = 1", "F:1:1: foo: unknown key"},
		{"unknown section", "[tierin]\nenabled = true", "F:1:2: tierin: unknown key; did you mean tiering?"},
		{"unknown key", "\n[log]\n  syn = 'x'", "F:3:3: log.syn: unknown key; did you mean log.sync?"},
		{"transposed letters", "[[capture]]\nname='a'\nurl = 'host=x'\nslto='x'", "F:4:1: capture.slto: unknown key; did you mean capture.slot?"},
		{"key of another section", "[log]\nfragment_bytes = 1", "F:2:1: log.fragment_bytes: unknown key; did you mean tiering.fragment_bytes?"},
		{"other case", "[admin]\nListen = '127.0.0.1:1'", "F:2:1: admin.Listen: unknown key; did you mean admin.listen?"},
		{"dotted key", "log.sync = 'x'", `F:1:1: log.sync: "x": want one of "always", "interval", "never"`},
		{"unknown key in an inline table", "log = {syn = 1}", "F:1:8: syn: unknown key; did you mean log.sync?"},
		{"inline table", "log = {sync = 'x'}", `F:1:8: log.sync: "x": want one of "always", "interval", "never"`},
		{"bound", "[log]\nsegment_max_bytes = '1KiB'", `F:2:1: log.segment_max_bytes: "1KiB": want 4KiB to 2GiB`},
		{"several", "[log]\nsync = 1\nsync_interval = '2h'", "F:2:1: log.sync: 1: want a string in quotes\nF:3:1: log.sync_interval: \"2h\": want 1ms to 1m"},
		{"second of two captures", "[[capture]]\nname='a'\nurl = 'host=x'\n[[capture]]\nname='b'\nurl = 'host=x'\nslot=3", "F:7:1: capture[1].slot: 3: want a string in quotes"},
		{"only the second has it", "[[capture]]\nname='a'\nurl = 'host=x'\nslot='a'\n[[capture]]\nname='b'\nurl = 'host=x'\nslot='B'", `F:8:1: capture[1].slot: "B": byte 0`},
		{"a key that is missing", "[[capture]]\nurl = 'host=x'", "F: capture[0].name: required"},
		{"table for a value", "[log.sync]\nx = 1", "F:1:2: log.sync: a table: want a string in quotes"},
		{"value for a table", "log = 3", "F:1:7: log: want one table, [log]"},
		{"array for a table", "[[log]]\nsync = 'x'", "F:1:3: log: want one table, [log]"},
		{"value for captures", "capture = 3", "F:1:11: capture: want tables, [[capture]]"},
		{"key set twice", "[log]\nsync = 'always'\nsync = 'never'", "F:3:1: key sync is already defined"},
		{"syntax", "[log\n", "F:1:5: expected ']'"},
		{"after a byte order mark", "\ufefffoo = 1", "F:1:1: foo: unknown key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, "m.toml", c.text)
			_, err := Load(path)
			if err == nil {
				t.Fatal("accepted")
			}
			if got := strings.ReplaceAll(err.Error(), path, "F"); !strings.HasPrefix(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestManyFaultsAreCut(t *testing.T) {
	_, err := Load(write(t, "m.toml", strings.Repeat("[[capture]]\n", 5000)))
	if err == nil || strings.Count(err.Error(), "\n") != maxFaults || !strings.HasSuffix(err.Error(), "and 9980 more") {
		t.Errorf("got %v", err)
	}
}

func TestConnectionStringsComeFromFilesAndTheEnvironment(t *testing.T) {
	t.Setenv("MILLRACE_TEST_URL", "postgres://u:env@h/d")
	text := fmt.Sprintf("[[capture]]\nname='a'\nurl_file=%q\n[[capture]]\nname='b'\nurl_env='MILLRACE_TEST_URL'\n",
		write(t, "url", "postgres://u:file@h/d\n"))
	s, err := Load(write(t, "m.toml", text))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := s.Captures[0].URL.Reveal(), s.Captures[1].URL.Reveal(); a != "postgres://u:file@h/d" || b != "postgres://u:env@h/d" {
		t.Errorf("got %q and %q", a, b)
	}
	if len(s.Warnings) != 0 {
		t.Errorf("warned: %q", s.Warnings)
	}
}

func TestMissingConnectionStringsAreNamedButDoNotHinderClients(t *testing.T) {
	path := write(t, "m.toml", fmt.Sprintf("[[capture]]\nname='a'\nurl_file='/nonexistent'\n[[capture]]\nname='b'\nurl_env='MILLRACE_TEST_UNSET'\n[[capture]]\nname='c'\nurl_file=%q\n",
		write(t, "empty", "\n")))
	_, err := Load(path)
	for _, want := range []string{"capture[0].url_file: open /nonexistent", "capture[1].url_env: environment variable MILLRACE_TEST_UNSET is not set", "capture[2].url_file: is empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if s, err := Read(path); err != nil || len(s.Captures) != 3 {
		t.Errorf("Read: %+v, %v", s, err)
	}
}

func TestTheStoresSecretComesFromAFileOrTheEnvironment(t *testing.T) {
	const base = "[store]\nkind='s3'\nbucket='acme'\nregion='eu-central-1'\naccess_key_id='AK'\nallow_static_credentials=true\n"
	t.Setenv("MILLRACE_TEST_SECRET", "from-env")
	for keys, want := range map[string]string{
		fmt.Sprintf("secret_key_file=%q", write(t, "secret", "from-file\n")): "from-file",
		"secret_key_env='MILLRACE_TEST_SECRET'":                              "from-env",
	} {
		s, err := Load(write(t, "m.toml", base+keys))
		if err != nil || s.Store.S3.SecretKey.Reveal() != want {
			t.Errorf("%s: %q, %v", keys, s.Store.S3.SecretKey.Reveal(), err)
		}
	}
	for keys, want := range map[string]string{
		"secret_key_env='MILLRACE_TEST_UNSET'":                             "store.secret_key_env: environment variable MILLRACE_TEST_UNSET is not set: set it to the secret",
		"secret_key_file='/nonexistent'":                                   "store.secret_key_file: open /nonexistent",
		fmt.Sprintf("secret_key_file=%q", write(t, "secret", "a hunter2")): "store.secret_key_file: want the secret of store.access_key_id, but byte 1 is a blank",
	} {
		_, err := Load(write(t, "m.toml", base+keys))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", keys, err)
		}
	}
}

func TestAFileThatCannotBeReadIsNamed(t *testing.T) {
	if _, err := Load("/nonexistent/m.toml"); err == nil || !strings.Contains(err.Error(), "/nonexistent/m.toml") {
		t.Errorf("got %v", err)
	}
	if _, err := Load(write(t, "big", strings.Repeat("#", maxFile+1))); err == nil || !strings.Contains(err.Error(), "more than 1MiB") {
		t.Errorf("got %v", err)
	}
}

// Arbitrary text neither panics nor is taken for a configuration without a check.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "[log]\nsync='always'", "[[capture]]\nname='a'\nurl = 'host=x'", "capture=[{name='a'}]", "a.b.c=1", "[log.sync]", "log={sync=[]}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parse("f", text)
		if err == nil && s.Tiering.FragmentBytes < 4096 {
			t.Errorf("accepted with fragment_bytes = %d", s.Tiering.FragmentBytes)
		}
	})
}
