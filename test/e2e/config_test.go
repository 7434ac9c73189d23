package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "url")
	must(t, os.WriteFile(secret, []byte("postgres://u:hidden@h/db\n"), 0o600))
	for name, c := range map[string]struct {
		text  string
		code  int
		parts []string
	}{
		"good":               {"[node]\nname = \"a\"\n\n[[capture]]\nname = \"shop\"\nurl_file = \"" + secret + "\"\n", 0, []string{"ok, 1 capture"}},
		"an unknown key":     {"[log]\nsync = \"never\"\nsegment_max_byte = 7\n", 1, []string{":3:1: log.segment_max_byte: unknown key", "segment_max_bytes"}},
		"an unknown section": {"[logs]\nsync = \"never\"\n", 1, []string{":1:2: logs: unknown key", "log"}},
		"below its bound":    {"[log]\n\n  segment_max_bytes = \"1KiB\"\n", 1, []string{":3:3: log.segment_max_bytes:", "4KiB"}},
		"above its bound":    {"[tiering]\nfragment_max_age = \"8d\"\n", 1, []string{":2:1: tiering.fragment_max_age:", "1d"}},
		"of another type":    {"[tiering]\nenabled = \"yes\"\n", 1, []string{":2:1: tiering.enabled:"}},
		"no choice":          {"[log]\nsync = \"sometimes\"\n", 1, []string{`:2:1: log.sync: "sometimes": want one of "always", "interval", "never"`}},
		"no TOML":            {"[log\n", 1, []string{":1:5: "}},
		"not on loopback":    {"[admin]\nlisten = \"0.0.0.0:7077\"\n", 1, []string{":2:1: admin.listen:", "loopback"}},
		"two faults":         {"[log]\nsync = 7\n[local]\nmin_bytes = -1\n", 1, []string{":2:1: log.sync:", ":4:1: local.min_bytes:"}},
		"a slot taken twice": {"[[capture]]\nname = \"a\"\nslot = \"s\"\nurl = \"postgres://h/d\"\n[[capture]]\nname = \"b\"\nslot = \"s\"\nurl = \"postgres://h/d\"\n", 1, []string{"slot"}},
		"no url":             {"[[capture]]\nname = \"a\"\n", 1, []string{"one of url, url_file and url_env"}},
		"a missing file":     {"[[capture]]\nname = \"a\"\nurl_file = \"/nonexistent/url\"\n", 1, []string{"url_file", "/nonexistent/url"}},
		"a missing variable": {"[[capture]]\nname = \"a\"\nurl_env = \"MILLRACE_NO_SUCH\"\n", 1, []string{"MILLRACE_NO_SUCH is not set"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "millrace.toml")
			must(t, os.WriteFile(file, []byte(c.text), 0o600))
			a := command(t, "config", "check", file)
			a.want(t, c.code, c.parts...)
			if c.code == 0 && a.err != "" {
				t.Errorf("a good file is warned of: %s", a.err)
			}
			if c.code != 0 {
				command(t, "run", "--config", file).want(t, c.code, c.parts...)
			}
		})
	}
	t.Run("a secret in the url", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "millrace.toml")
		must(t, os.WriteFile(file, []byte("[[capture]]\nname = \"a\"\nurl = \"postgres://u:hidden@h/db\"\n"), 0o600))
		a := command(t, "config", "check", file)
		a.want(t, 0, "ok, 1 capture")
		answer{code: 1, err: a.err}.want(t, 1, "warning: capture[0].url: the configuration file holds a password")
		must(t, leaks("hidden", a.out, a.err))
	})
	command(t, "config", "check", "/nonexistent.toml").want(t, 1, "/nonexistent.toml")
	command(t, "config", "check").want(t, 0, "embedded defaults: ok, 0 captures")
	command(t, "config", "check", "a", "b").want(t, 2, "one operand too many")
}
