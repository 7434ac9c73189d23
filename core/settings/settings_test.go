package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// parseOne parses a configuration that sets one key only, besides what a capture needs.
func parseOne(f Field, given any) (Settings, error) {
	raw := Raw{Sections: map[string]map[string]any{}}
	if f.Section == SectionCapture {
		keys := map[string]any{"name": "shop", "url": "postgres://localhost/shop"}
		if strings.HasPrefix(f.Name, "url") {
			delete(keys, "url")
		}
		keys[f.Name] = given
		raw.Captures = []map[string]any{keys}
	} else {
		raw.Sections[f.Section] = map[string]any{f.Name: given}
	}
	if f.Of == StoreS3 {
		keys := map[string]any{"kind": StoreS3, "bucket": "acme", "region": "eu-central-1"}
		keys[f.Name] = given
		raw.Sections["store"] = keys
	}
	return Parse(raw)
}

func wantFault(t *testing.T, err error, key, why string) {
	t.Helper()
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("%s: got %v, want Faults", key, err)
	}
	for _, f := range faults {
		if f.Key == key && strings.Contains(f.Why, why) {
			return
		}
	}
	t.Fatalf("no fault of %s saying %q in:\n%v", key, why, err)
}

func TestDefaultIsWhatAnEmptyConfigurationGives(t *testing.T) {
	s, err := Parse(Raw{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", s), fmt.Sprintf("%+v", Default()); got != want {
		t.Errorf("Parse of nothing:\n%s\nDefault:\n%s", got, want)
	}
	if s.Tiering.FragmentBytes != 64<<20 || s.Tiering.FragmentMaxAge != 5*time.Minute || s.Tiering.RootGrace != time.Hour {
		t.Errorf("tiering defaults are %+v", s.Tiering)
	}
	if s.Admin.TokenFile != "millrace-data/admin.token" || s.Store.Path != "millrace-data/store" {
		t.Errorf("derived defaults are %q, %q", s.Admin.TokenFile, s.Store.Path)
	}
}

func TestEveryRowIsWhole(t *testing.T) {
	seen := map[string]bool{}
	sections := map[string]bool{}
	for _, s := range Sections() {
		sections[s.Name] = true
		if !strings.HasSuffix(s.Doc, ".") {
			t.Errorf("section %s has no sentence of documentation", s.Name)
		}
	}
	for _, f := range Fields() {
		if seen[f.Key()] {
			t.Errorf("%s stands twice in the table", f.Key())
		}
		seen[f.Key()] = true
		if !sections[f.Section] {
			t.Errorf("%s: section %s is not in Sections", f.Key(), f.Section)
		}
		if !strings.HasSuffix(f.Doc, ".") && !strings.HasSuffix(f.Doc, ")") {
			t.Errorf("%s: documentation %q is not a sentence", f.Key(), f.Doc)
		}
		if (f.node != nil) == (f.inside != nil) || (f.Section == SectionCapture) != (f.inside != nil) {
			t.Errorf("%s: the value goes nowhere or to two places", f.Key())
		}
		if numeric(f) && f.Min >= f.Max {
			t.Errorf("%s: bounds %d to %d", f.Key(), f.Min, f.Max)
		}
	}
	for name := range sections {
		if !strings.Contains(fmt.Sprint(seen), name+".") {
			t.Errorf("section %s has no key", name)
		}
	}
}

func numeric(f Field) bool { return f.Kind == Count || f.Kind == Size || f.Kind == Span }

// given is a value of the field's kind that stands for n.
func given(f Field, n int64) any {
	if f.Kind == Span {
		return time.Duration(n).String()
	}
	return n
}

func TestBoundsAreInclusiveAndNamedInErrors(t *testing.T) {
	for _, f := range Fields() {
		if !numeric(f) {
			continue
		}
		for _, n := range []int64{f.Min, f.Max} {
			if _, err := parseOne(f, given(f, n)); err != nil {
				t.Errorf("%s = %d: %v", f.Key(), n, err)
			}
		}
		_, err := parseOne(f, given(f, f.Max+1))
		wantFault(t, err, f.Key(), "want "+f.Bound())
		if f.Min > 1 {
			_, err = parseOne(f, given(f, f.Min-1))
			wantFault(t, err, f.Key(), "want "+f.Bound())
		}
		_, err = parseOne(f, given(f, 0))
		if ok := f.ZeroOff || f.Min == 0; ok != (err == nil) {
			t.Errorf("%s = 0: %v", f.Key(), err)
		}
	}
}

func TestEveryKindRefusesAnotherType(t *testing.T) {
	for _, f := range Fields() {
		wrong := []any{1.5, []any{"x"}, true}
		if f.Kind == Flag {
			wrong = []any{"true", int64(1)}
		}
		for _, g := range wrong {
			_, err := parseOne(f, g)
			wantFault(t, err, f.Key(), "want ")
		}
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		key, given, fault string
	}{
		{"node.name", "a b", "byte 1"},
		{"node.name", "", "1 to 255"},
		{"node.data_dir", "a\nb", "line break"},
		{"log.sync", "allways", "did you mean always?"},
		{"log.sync", "", `one of "always", "interval", "never"`},
		{"store.prefix", "/x", "single slashes"},
		{"store.prefix", "x/../y", "single slashes"},
		{"store.prefix", "a b", "letters"},
		{"store.prefix", "a/b-1.c", ""},
		{"admin.listen", "0.0.0.0:7077", "loopback"},
		{"admin.listen", "example.com:7077", "ssh -L"},
		{"admin.listen", "127.0.0.1", "host:port"},
		{"admin.listen", "127.0.0.1:70777", "0 to 65535"},
		{"admin.listen", "127.0.0.300:1", "loopback"},
		{"admin.listen", "127.0.0.1:0", ""},
		{"admin.listen", "localhost:80", ""},
		{"admin.listen", "[::1]:7077", ""},
		{"capture.name", "Shop", "a-z, 0-9 and _"},
		{"capture.name", strings.Repeat("x", 55), "1 to 54"},
		{"capture.slot", "my-slot", "replication slot"},
		{"capture.stream", "amq.x", "reserved"},
		{"capture.on_slot_lost", "ask", `"reload", "stop"`},
	} {
		_, err := parseOne(field(t, c.key), c.given)
		if c.fault == "" {
			if err != nil {
				t.Errorf("%s = %q: %v", c.key, c.given, err)
			}
			continue
		}
		wantFault(t, err, c.key, c.fault)
	}
}

func field(t *testing.T, key string) Field {
	t.Helper()
	for _, f := range Fields() {
		if f.Key() == key {
			return f
		}
	}
	t.Fatalf("no field %s", key)
	return Field{}
}

func TestUnknownKeysAreRefusedWithTheNearest(t *testing.T) {
	_, err := Parse(Raw{Sections: map[string]map[string]any{
		"tiering": {"fragment_byte": int64(1)},
		"log":     {"zzz": int64(1), "min_bytes": int64(5), "max_bytes": int64(5)},
		"tierin":  {"enabled": true},
	}, Captures: []map[string]any{{"name": "a", "url": "host=x", "pub": "y"}}})
	wantFault(t, err, "tiering.fragment_byte", "did you mean tiering.fragment_bytes?")
	wantFault(t, err, "log.zzz", "unknown key")
	wantFault(t, err, "log.min_bytes", "did you mean local.min_bytes?")
	wantFault(t, err, "log.max_bytes", "did you mean local.max_bytes or retention.max_bytes?")
	wantFault(t, err, "tierin.enabled", "did you mean tiering?")
	wantFault(t, err, "capture.pub", "unknown key")
	for lost, want := range map[string]string{
		"data_dir": "node.data_dir", "datadir": "node.data_dir", "fragment_bytes": "tiering.fragment_bytes",
		"max_bytes": "local.max_bytes or retention.max_bytes", "tiring": "tiering",
	} {
		if got := Suggest(lost, ""); got != "; did you mean "+want+"?" {
			t.Errorf("%s without its section: %q", lost, got)
		}
	}
	if strings.Contains(err.Error(), "zzz: unknown key;") {
		t.Errorf("a key like no other got a suggestion:\n%v", err)
	}
	if !strings.Contains(err.Error(), "capture[0].pub: ") {
		t.Errorf("the capture's index is missing:\n%v", err)
	}
}

func TestCaptureDefaultsComeFromItsName(t *testing.T) {
	s, err := Parse(Raw{Captures: []map[string]any{{"name": "shop", "url_env": "SHOP"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := Capture{Name: "shop", Stream: "shop", URLEnv: "SHOP", Slot: "millrace_shop", Publication: "millrace_shop", OnSlotLost: SlotLostReload, MaxValue: 64 << 20}
	if s.Captures[0] != want {
		t.Errorf("got %+v, want %+v", s.Captures[0], want)
	}
}

func TestCapturesMustNotShare(t *testing.T) {
	_, err := Parse(Raw{Captures: []map[string]any{
		{"name": "a", "url": "host=x"},
		{"name": "a", "url": "host=x", "slot": "other", "stream": "other"},
		{"name": "b", "url": "host=x", "slot": "millrace_a", "stream": "a"},
	}})
	wantFault(t, err, "capture.name", "capture[0]")
	wantFault(t, err, "capture.slot", "capture[0]")
	wantFault(t, err, "capture.stream", "capture[0]")
}

func TestCaptureNeedsANameAndExactlyOneSource(t *testing.T) {
	_, err := Parse(Raw{Captures: []map[string]any{{}, {"name": "b", "url": "host=x", "url_env": "Y"}}})
	wantFault(t, err, "capture.name", "required")
	wantFault(t, err, "capture.url", "required")
	wantFault(t, err, "capture.url_env", "url and url_env are both set")
}

func TestLocalMinimumIsNotAboveTheMaximum(t *testing.T) {
	_, err := Parse(Raw{Sections: map[string]map[string]any{"local": {"max_bytes": "1MiB", "min_bytes": "2MiB"}}})
	wantFault(t, err, "local.min_bytes", "local.max_bytes = 1MiB")
	s, err := Parse(Raw{Sections: map[string]map[string]any{"local": {"max_bytes": "1MiB"}}})
	if err != nil || s.Local.MinBytes != 1<<20 {
		t.Errorf("a small maximum alone gives %+v, %v", s.Local, err)
	}
}

func TestDerivedDefaultsFollowTheDataFolder(t *testing.T) {
	s, err := Parse(Raw{Sections: map[string]map[string]any{"node": {"data_dir": "/var/lib/m/"}, "store": {"path": "/mnt/x"}}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Admin.TokenFile != "/var/lib/m/admin.token" || s.Store.Path != "/mnt/x" {
		t.Errorf("got %q and %q", s.Admin.TokenFile, s.Store.Path)
	}
}

func TestAPasswordInTheFileIsWarnedAbout(t *testing.T) {
	for url, warned := range map[string]bool{
		"postgres://u:p@h/d":             true,
		"host=h user=u password=p":       true,
		"postgres://u@h/d?password=p":    true,
		"postgres://u@h:5432/d":          false,
		"host=h port=5432 user=u":        false,
		"postgres://h/d?options=a:b@c:d": false,
	} {
		s, err := Parse(Raw{Captures: []map[string]any{{"name": "a", "url": url}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(s.Warnings) > 0; got != warned {
			t.Errorf("%s: warnings %q", url, s.Warnings)
		}
		if strings.Contains(fmt.Sprint(s.Warnings), "p@h") {
			t.Errorf("the warning shows the secret: %q", s.Warnings)
		}
	}
}

func TestAConnectionStringHasTheShapeOfOne(t *testing.T) {
	for text, good := range map[string]bool{
		"postgres://u:p%40q@[::1]:5432/d?sslmode=require": true, "postgresql://h1:1,h2:2/d": true, "postgres://": true,
		"host=h port=5432 user=u": true, " host = 'a b' password='it\\'s' ": true, "host=h dbname=": true, "options='-c a.b=c'": true,
		"mysql://u:hunter2@h/d": false, "mysql://u:hunter2@h/d?a=b": false, "not a url": false, "hunter2": false, "=hunter2": false,
		"host=h hunter2": false, "host=h password='hunter2": false, "postgres://u:hunter2%@h/d": false, "postgres://u:hunter2 x@h/d": false,
		"postgres:/u:hunter2@h/d": false, "POSTGRES://u:hunter2@h/d": false,
	} {
		_, direct := Parse(Raw{Captures: []map[string]any{{"name": "a", "url": text}}})
		_, filled := Default().withCapture().FillURL(0, text)
		if (direct == nil) != good || (filled == nil) != good {
			t.Errorf("%q: %v, %v", text, direct, filled)
		}
		if out := fmt.Sprint(direct, filled); strings.Contains(out, "hunter2") || strings.Contains(out, "not a url") {
			t.Errorf("the error repeats the string: %s", out)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	s, err := Default().withCapture().FillURL(0, " postgres://u:hunter2@h/d\n")
	if err != nil {
		t.Fatal(err)
	}
	if s.Captures[0].URL.Reveal() != "postgres://u:hunter2@h/d" {
		t.Errorf("got %q", s.Captures[0].URL.Reveal())
	}
	asJSON, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v %q %s", s, s, s.Captures[0].URL, s.Captures[0].URL), string(asJSON)} {
		if strings.Contains(out, "hunter2") {
			t.Errorf("a secret is printed: %s", out)
		}
	}
	if _, err := s.FillURL(0, " \n"); err == nil {
		t.Error("an empty connection string is accepted")
	}
}

func (s Settings) withCapture() Settings {
	s.Captures = []Capture{{Name: "a"}}
	return s
}

func TestSizesAndSpansReadWhatTheyPrint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Min(0).Draw(t, "bytes")
		if got, err := ParseSize(FormatSize(n)); err != nil || got != n {
			t.Fatalf("size %d printed %q and read %d, %v", n, FormatSize(n), got, err)
		}
		d := time.Duration(rapid.Int64Min(0).Draw(t, "nanoseconds"))
		if got, err := ParseSpan(FormatSpan(d)); err != nil || got != d {
			t.Fatalf("span %d printed %q and read %d, %v", d, FormatSpan(d), got, err)
		}
	})
}

func TestSizesAndSpans(t *testing.T) {
	sizes := map[string]int64{"0": 0, "64MiB": 64 << 20, "64 MiB": 64 << 20, "500MB": 500e6, "1kB": 1000, "7B": 7, "8388607TiB": 8388607 << 40}
	for text, want := range sizes {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "1.5GiB", "64mib", "MiB", "64  MiB ", "8388608TiB", "99999999999999999999"} {
		if n, err := ParseSize(text); err == nil {
			t.Errorf("%q is taken as %d bytes", text, n)
		}
	}
	spans := map[string]time.Duration{"0s": 0, "30d": 720 * time.Hour, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond}
	for text, want := range spans {
		if got, err := ParseSpan(text); err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5", "-5m", "1.5d", "d", "999999999d"} {
		if d, err := ParseSpan(text); err == nil {
			t.Errorf("%q is taken as %v", text, d)
		}
	}
}

// Whatever a file says, Parse answers without a panic, and what it accepts is
// within the bounds of the table.
func TestParseNeverPanicsAndKeepsTheBounds(t *testing.T) {
	fields := Fields()
	rapid.Check(t, func(t *rapid.T) {
		raw := Raw{Sections: map[string]map[string]any{}}
		for range rapid.IntRange(0, 6).Draw(t, "keys") {
			f := rapid.SampledFrom(fields).Draw(t, "field")
			v := rapid.OneOf(rapid.Just[any](int64(1)), rapid.Just[any](true), rapid.Just[any](1.5), rapid.Just[any](nil),
				rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Int64(), func(n int64) any { return n })).Draw(t, "value")
			if f.Section == SectionCapture {
				raw.Captures = append(raw.Captures, map[string]any{f.Name: v})
				continue
			}
			if raw.Sections[f.Section] == nil {
				raw.Sections[f.Section] = map[string]any{}
			}
			raw.Sections[f.Section][f.Name] = v
		}
		s, err := Parse(raw)
		if err != nil {
			return
		}
		for _, f := range fields {
			if f.Kind == Size && f.node != nil {
				if err := f.bounded(*f.node(&s).size, "kept"); err != nil {
					t.Fatalf("%s: %v", f.Key(), err)
				}
			}
		}
	})
}
