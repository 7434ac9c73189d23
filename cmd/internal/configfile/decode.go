package configfile

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"millrace/core/settings"
)

// decode reads TOML that uses keys of the settings' table only. The struct type
// that the decoder is strict about is made from that table, so that there is no
// second list of keys. The values are then read as they stand, because the decoder
// matches a struct's keys in any case and would take "Listen" for "listen".
func decode(text []byte) (settings.Raw, error) {
	if err := strict(text, settings.Fields()); err != nil {
		return settings.Raw{}, describe(err)
	}
	var doc map[string]any
	if err := toml.Unmarshal(text, &doc); err != nil {
		return settings.Raw{}, describe(err)
	}
	raw := settings.Raw{Sections: map[string]map[string]any{}}
	for section, v := range doc {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				keys, ok := one.(map[string]any)
				if !ok {
					return raw, places{{what: section + ": want tables, [[" + section + "]]"}}
				}
				raw.Captures = append(raw.Captures, keys)
			}
		case map[string]any:
			if section == settings.SectionCapture {
				raw.Captures = append(raw.Captures, v)
			} else {
				raw.Sections[section] = v
			}
		}
	}
	return raw, nil
}

// strict decodes text into a struct of the given fields and nothing else.
func strict(text []byte, fields []settings.Field) error {
	target := reflect.New(document(fields)).Interface()
	return toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(target)
}

// document is the struct type whose fields are the sections, and theirs the keys.
func document(fields []settings.Field) reflect.Type {
	var out []reflect.StructField
	for _, s := range settings.Sections() {
		var keys []reflect.StructField
		for _, f := range fields {
			if f.Section == s.Name {
				keys = append(keys, structField(len(keys), f.Name, reflect.TypeFor[any]()))
			}
		}
		typ := reflect.StructOf(keys)
		if s.Name == settings.SectionCapture {
			typ = reflect.SliceOf(typ)
		}
		out = append(out, structField(len(out), s.Name, typ))
	}
	return reflect.StructOf(out)
}

func structField(i int, name string, typ reflect.Type) reflect.StructField {
	return reflect.StructField{Name: "F" + strconv.Itoa(i), Type: typ, Tag: reflect.StructTag(`toml:"` + name + `"`)}
}

// describe turns the decoder's errors into places.
func describe(err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) {
		var out places
		for _, e := range unknown.Errors {
			line, column := e.Position()
			out = append(out, place{line, column, strings.Join(e.Key(), ".") + ": unknown key" + suggest(e.Key())})
		}
		return out
	}
	var syntax *toml.DecodeError
	if errors.As(err, &syntax) {
		line, column := syntax.Position()
		return places{{line, column, mistyped(syntax)}}
	}
	return err
}

// mistyped words what the decoder says. Where a section is not a table its own
// words would show the struct type.
func mistyped(e *toml.DecodeError) string {
	what := strings.TrimPrefix(e.Error(), "toml: ")
	if len(e.Key()) != 1 || !strings.HasPrefix(what, "cannot ") {
		return what
	}
	section := e.Key()[0]
	if section == settings.SectionCapture {
		return section + ": want tables, [[" + section + "]]"
	}
	return section + ": want one table, [" + section + "]"
}

func suggest(key toml.Key) string {
	if len(key) == 1 {
		return settings.Suggest(key[0], key[0])
	}
	return settings.Suggest(key[0], key[1])
}

// locate finds where the key of a fault stands, by asking the strict decoder for a
// document without that key. A key the file does not hold is placed nowhere.
func locate(text []byte, f settings.Fault) place {
	nowhere := place{what: f.Error()}
	section, name, _ := strings.Cut(f.Key, ".")
	fields := slices.DeleteFunc(settings.Fields(), func(x settings.Field) bool { return strings.EqualFold(x.Key(), f.Key) })
	var unknown *toml.StrictMissingError
	if !errors.As(strict(text, fields), &unknown) {
		return nowhere
	}
	found := slices.DeleteFunc(unknown.Errors, func(e toml.DecodeError) bool {
		key := strings.Join(e.Key(), ".")
		return key != f.Key && key != name // of a key in an inline table the decoder knows the last part only
	})
	nth := 0
	if section == settings.SectionCapture {
		nth = holders(text, name, f.Index)
	}
	if nth < 0 || nth >= len(found) {
		return nowhere
	}
	line, column := found[nth].Position()
	return place{line, column, f.Error()}
}

// holders counts the captures before the given one that hold the key; -1 if that
// one does not hold it.
func holders(text []byte, name string, index int) int {
	raw, err := decode(text)
	if err != nil || raw.Captures[index][name] == nil {
		return -1
	}
	n := 0
	for _, keys := range raw.Captures[:index] {
		if keys[name] != nil {
			n++
		}
	}
	return n
}
