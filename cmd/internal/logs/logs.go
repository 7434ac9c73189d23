package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"millrace/core/settings"
)

const blot = "[secret]"

// minSecret is the shortest text that is blotted out: a shorter one would stand in
// ordinary words.
const minSecret = 4

// New makes a logger that writes to w, one whole line per write. secrets are texts that
// must not be written, such as connection strings; their passwords are found here.
func New(w io.Writer, cfg settings.Logging, secrets []settings.Secret) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(cfg.Level)
	if err != nil {
		return zerolog.Nop(), fmt.Errorf("logging.level: %w", err)
	}
	out := io.Writer(&blotter{to: w, secrets: forms(secrets)})
	if cfg.Format == settings.FormatConsole {
		out = zerolog.ConsoleWriter{Out: out, TimeFormat: time.DateTime, NoColor: true}
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger(), nil
}

// blotter replaces secrets in every line.
type blotter struct {
	to      io.Writer
	secrets [][]byte
}

func (b *blotter) Write(line []byte) (int, error) {
	clean := line
	for _, s := range b.secrets {
		if bytes.Contains(clean, s) {
			clean = bytes.ReplaceAll(clean, s, []byte(blot))
		}
	}
	if _, err := b.to.Write(clean); err != nil {
		return 0, err
	}
	return len(line), nil
}

// forms lists the spellings in which the secrets could turn up, longest first, so that
// no rest of a longer one stays.
func forms(secrets []settings.Secret) (out [][]byte) {
	var texts []string
	for _, s := range secrets {
		text := s.Reveal()
		texts = append(texts, text)
		texts = append(texts, passwords(text)...)
	}
	for _, text := range texts {
		for _, form := range []string{text, escaped(text), url.QueryEscape(text), url.PathEscape(text)} {
			if len(form) >= minSecret {
				out = append(out, []byte(form))
			}
		}
	}
	slices.SortFunc(out, func(a, b []byte) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return bytes.Compare(a, b)
	})
	return slices.CompactFunc(out, bytes.Equal)
}

// escaped is the text as it stands inside a JSON string.
func escaped(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return text
	}
	return string(b[1 : len(b)-1])
}

// passwords finds them in a connection string of either form, as they stand and decoded.
// It is done by hand because a string that is no good URL is logged just as well.
func passwords(text string) (out []string) {
	_, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		for word := range strings.FieldsSeq(text) {
			if p, ok := strings.CutPrefix(word, "password="); ok {
				out = append(out, strings.Trim(p, "'"))
			}
		}
		return out
	}
	rest, query, _ := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		_, p, _ := strings.Cut(rest[:at], ":")
		out = append(out, p)
	}
	for pair := range strings.SplitSeq(query, "&") {
		if p, ok := strings.CutPrefix(pair, "password="); ok {
			out = append(out, p)
		}
	}
	for _, p := range out {
		if decoded, err := url.PathUnescape(p); err == nil {
			out = append(out, decoded)
		}
	}
	return out
}
