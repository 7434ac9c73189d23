package httpadmin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// only lets a request through that carries nothing else: what is misspelt, or meant for
// something else, must not be passed over in silence.
func (t takes) only(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if t != parameterized {
			if err := parameters(r.URL.RawQuery, nil); err != nil {
				refuse(w, http.StatusBadRequest, err.Error(), "it takes no parameters: leave them out")
				return
			}
		}
		if t != withBody {
			if _, err := io.ReadFull(r.Body, make([]byte, 1)); err == nil {
				refuse(w, http.StatusBadRequest, "the request has a body", "it takes none: leave it out")
				return
			}
		}
		answer(w, r)
	}
}

// body reads a request's JSON; false after it was refused.
func body(w http.ResponseWriter, r *http.Request, into any, hint string) bool {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", maxBody), "")
		return false
	}
	if err == nil {
		err = decode(raw, into)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body is not as expected: "+err.Error(), hint)
	}
	return err == nil
}

// decode reads one object, with each key once and spelt as it is meant: encoding/json alone
// takes other cases of a letter too, and of two of the same the last.
func decode(raw []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, more := dec.Token(); !errors.Is(more, io.EOF) {
		return errors.New("something follows the object")
	}
	return checkKeys(json.NewDecoder(bytes.NewReader(raw)), keysOf(into))
}

// keysOf lists the keys of the struct that v points to.
func keysOf(v any) []string {
	var keys []string
	for f := range reflect.TypeOf(v).Elem().Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, key)
	}
	return keys
}

// checkKeys goes over one value that is JSON. Only the keys of the outermost object have to
// be known ones.
func checkKeys(dec *json.Decoder, known []string) error {
	opening, err := dec.Token()
	if err != nil {
		return err
	}
	object := opening == json.Delim('{')
	if !object && opening != json.Delim('[') {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		if object {
			token, err := dec.Token()
			if err != nil {
				return err
			}
			key, _ := token.(string)
			switch {
			case seen[key]:
				return fmt.Errorf("the key %q is there twice", key)
			case known != nil && !slices.Contains(known, key):
				return fmt.Errorf("unknown field %q", key)
			}
			seen[key] = true
		}
		if err := checkKeys(dec, nil); err != nil {
			return err
		}
	}
	_, err = dec.Token() // its end
	return err
}
