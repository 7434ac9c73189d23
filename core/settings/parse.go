package settings

import (
	"fmt"
	"strings"
)

// Raw is a configuration as a file holds it: what each section's keys are set to.
// Values are string, bool, int64, or anything else, which is then refused.
type Raw struct {
	Sections map[string]map[string]any // without SectionCapture
	Captures []map[string]any
}

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	Key   string // "section.name"; "" if it is not about one key
	Index int    // which [[capture]], from 0; meaningless elsewhere
	Why   string // what is wrong, and the bound
}

// Error prints the fault with the key's full name.
func (f Fault) Error() string {
	section, name, _ := strings.Cut(f.Key, ".")
	if section == SectionCapture {
		return fmt.Sprintf("capture[%d].%s: %s", f.Index, name, f.Why)
	}
	return f.Key + ": " + f.Why
}

// Faults is everything that is wrong with a configuration; never empty as an error.
type Faults []Fault

// Error prints one fault a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Default returns the settings of a node that was told nothing.
func Default() Settings {
	var s Settings
	for _, f := range Fields() {
		if f.Section != SectionCapture && f.Default != "" {
			f.node(&s).set(f.fallback(&s, ""))
		}
	}
	return s
}

// Parse checks raw against the table and fills in what it does not say. Its error
// is a Faults with every fault found.
func Parse(raw Raw) (Settings, error) {
	p := parser{out: Default(), fields: map[string]Field{}}
	for _, f := range Fields() {
		p.fields[f.Key()] = f
	}
	for section, keys := range sorted(raw.Sections) {
		for name, given := range sorted(keys) {
			if f, v, ok := p.read(section, name, 0, given); ok {
				f.node(&p.out).set(v)
			}
		}
	}
	p.derive(raw)
	for i, keys := range raw.Captures {
		p.capture(i, keys)
	}
	p.store(raw.Sections["store"])
	p.across()
	if len(p.faults) > 0 {
		return Settings{}, p.faults
	}
	return p.out, nil
}

type parser struct {
	out    Settings
	fields map[string]Field
	faults Faults
}

func (p *parser) fail(key string, index int, format string, args ...any) {
	p.faults = append(p.faults, Fault{Key: key, Index: index, Why: fmt.Sprintf(format, args...)})
}

// read checks one given value; ok is false when it was refused.
func (p *parser) read(section, name string, index int, given any) (Field, value, bool) {
	key := section + "." + name
	f, known := p.fields[key]
	if !known {
		p.fail(key, index, "unknown key%s", Suggest(section, name))
		return f, value{}, false
	}
	v, err := f.parse(given)
	if err != nil {
		p.fail(key, index, "%v", err)
		return f, value{}, false
	}
	return f, v, true
}

// derive sets the defaults that rest on another key of the node, once that is known.
func (p *parser) derive(raw Raw) {
	for _, f := range Fields() {
		if f.Section == SectionCapture || !strings.Contains(f.Default, "<") {
			continue
		}
		if _, given := raw.Sections[f.Section][f.Name]; !given {
			f.node(&p.out).set(f.fallback(&p.out, ""))
		}
	}
	if _, given := raw.Sections["local"]["min_bytes"]; !given && p.out.Local.MaxBytes > 0 {
		p.out.Local.MinBytes = min(p.out.Local.MinBytes, p.out.Local.MaxBytes)
	}
}

func (p *parser) capture(index int, keys map[string]any) {
	var c Capture
	for name, given := range sorted(keys) {
		if f, v, ok := p.read(SectionCapture, name, index, given); ok {
			f.inside(&c).set(v)
		}
	}
	if keys["name"] == nil {
		p.fail("capture.name", index, "required: each capture needs a name of its own")
	}
	for _, f := range captureFields {
		_, given := keys[f.Name]
		unnamed := c.Name == "" && strings.Contains(f.Default, "<name>") // a fault already; its slot would only repeat it
		if !given && !unnamed && f.Default != "" {
			f.inside(&c).set(f.fallback(&p.out, c.Name))
		}
	}
	p.source(index, keys, c)
	p.out.Captures = append(p.out.Captures, c)
}

// source checks that a capture says exactly once where its database is.
func (p *parser) source(index int, keys map[string]any, c Capture) {
	var given []string
	for _, name := range []string{"url", "url_file", "url_env"} {
		if keys[name] != nil {
			given = append(given, name)
		}
	}
	switch {
	case len(given) == 0:
		p.fail("capture.url", index, "required: set one of url, url_file and url_env to say where the database is")
	case len(given) > 1:
		p.fail("capture."+given[1], index, "%s are both set: exactly one of url, url_file and url_env is allowed", strings.Join(given, " and "))
	case holdsPassword(c.URL):
		p.out.Warnings = append(p.out.Warnings, fmt.Sprintf(
			"capture[%d].url: the configuration file holds a password; move the connection string to a file (url_file) or the environment (url_env)", index))
	}
}

// across checks what no single key can be wrong about.
func (p *parser) across() {
	if l := p.out.Local; l.MaxBytes > 0 && l.MinBytes > l.MaxBytes {
		p.fail("local.min_bytes", 0, "%s is more than local.max_bytes = %s: at most that", FormatSize(l.MinBytes), FormatSize(l.MaxBytes))
	}
	type owned struct{ name, what string }
	owner := map[owned]int{}
	for i, c := range p.out.Captures {
		for _, o := range []owned{{"name", c.Name}, {"stream", c.Stream}, {"slot", c.Slot}} {
			if o.what == "" {
				continue
			}
			if first, taken := owner[o]; taken {
				p.fail("capture."+o.name, i, "%q is also capture[%d]'s: each capture needs its own", o.what, first)
				continue
			}
			owner[o] = i
		}
	}
}
