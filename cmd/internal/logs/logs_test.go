package logs

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"millrace/core/settings"
)

func TestJSONLinesFromALevelUp(t *testing.T) {
	var out strings.Builder
	log, err := New(&out, settings.Logging{Level: "warn", Format: settings.FormatJSON}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log.Info().Msg("quiet")
	log.Warn().Str("stream", "shop").Msg("loud")
	var line map[string]any
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil || line["message"] != "loud" || line["stream"] != "shop" || line["time"] == nil {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestConsoleLines(t *testing.T) {
	var out strings.Builder
	log, err := New(&out, settings.Logging{Level: "info", Format: settings.FormatConsole}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log.Info().Str("stream", "shop").Msg("hello")
	if s := out.String(); !strings.Contains(s, "INF hello stream=shop") || strings.Contains(s, "\x1b") {
		t.Errorf("%q", s)
	}
}

func TestAnUnknownLevelIsRefused(t *testing.T) {
	if _, err := New(&strings.Builder{}, settings.Logging{Level: "loud"}, nil); err == nil {
		t.Error("accepted")
	}
}

func TestSecretsAreBlottedOut(t *testing.T) {
	secrets := []settings.Secret{
		`postgres://shop:p%40ss"w%C3%B6rd@db:5432/shop`,
		"host=db user=u password=hunter22",
		"postgres://u@h/d?password=query-secret",
		"",
	}
	for _, format := range []string{settings.FormatJSON, settings.FormatConsole} {
		var out strings.Builder
		log, err := New(&out, settings.Logging{Level: "debug", Format: format}, secrets)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range secrets {
			log.Error().Err(errors.New("cannot connect to "+s.Reveal())).Str("url", s.Reveal()).Msg(s.Reveal())
		}
		log.Info().Str("why", `authentication failed for p@ss"wörd, p%40ss%22w%C3%B6rd, hunter22 and query-secret`).Msg("x")
		for _, secret := range []string{"p@ss", "p%40ss", "wörd", "hunter22", "query-secret"} {
			if strings.Contains(out.String(), secret) {
				t.Errorf("%s: %q is logged:\n%s", format, secret, out.String())
			}
		}
		if !strings.Contains(out.String(), blot) || !strings.Contains(out.String(), "authentication failed") {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestAWriterThatFailsIsReported(t *testing.T) {
	if n, err := (&blotter{to: broken{}}).Write([]byte("x")); err == nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
}
