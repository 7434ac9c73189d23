package settings

import "time"

// Kind is what a key takes in the file.
type Kind uint8

// The kinds. Each documents what the file may hold.
const (
	Text    Kind = iota // a string, checked by the field's own rule
	Choice              // one of Field.Choices
	Flag                // true or false
	Count               // a whole number
	Size                // bytes: a whole number, or a string such as "64MiB"
	Span                // a duration: a string such as "250ms", "5m", "36h" or "30d"
	Address             // a string "host:port", the host on loopback
)

// String names the kind as the documentation does.
func (k Kind) String() string {
	return [...]string{"text", "choice", "true or false", "number", "size", "duration", "address"}[k]
}

// Field is one row of the table: one key of the configuration.
type Field struct {
	Section string // the TOML table; SectionCapture is an array of tables
	Name    string
	Kind    Kind
	Choices []string // of a Choice
	// Min and Max bound the value, both inclusive: bytes of a Size, the number of a
	// Count, nanoseconds of a Span, bytes of length of a Text.
	Min, Max int64
	// ZeroOff: 0 is allowed besides Min to Max and switches the bound off.
	ZeroOff bool
	// Default is written as in the file. <data_dir> and <name> stand for the node's
	// data folder and the capture's name. Empty: none.
	Default string
	Doc     string
	// Of is the store.kind that has the key: with another one it is refused. Empty: all.
	Of string

	check  func(text string) error // further rule of a Text; nil = none
	node   func(*Settings) slot    // where the value goes, outside of captures
	inside func(*Capture) slot     // where the value goes, in a capture
}

// SectionCapture is the section that may stand any number of times: [[capture]].
const SectionCapture = "capture"

// Key is the field's full name, "section.name".
func (f Field) Key() string { return f.Section + "." + f.Name }

// slot is where a parsed value goes: exactly one of the pointers is set.
type slot struct {
	text   *string
	secret *Secret
	flag   *bool
	count  *int
	size   *int64
	span   *time.Duration
}

// value is one parsed value; the field's kind says which member counts.
type value struct {
	text   string
	flag   bool
	number int64
}

func (s slot) set(v value) {
	switch {
	case s.text != nil:
		*s.text = v.text
	case s.secret != nil:
		*s.secret = Secret(v.text)
	case s.flag != nil:
		*s.flag = v.flag
	case s.count != nil:
		*s.count = int(v.number)
	case s.size != nil:
		*s.size = v.number
	case s.span != nil:
		*s.span = time.Duration(v.number)
	}
}
