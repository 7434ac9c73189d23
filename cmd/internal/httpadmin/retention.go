package httpadmin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"millrace/actors/admin"
	"millrace/core/settings"
)

// RetentionRequest is the body of PUT /streams/{name}/retention. What is not given stays
// as it is; null takes the stream's own bound away.
type RetentionRequest struct {
	MaxBytes      Bound[int64] `json:"max_bytes,omitzero"`
	MaxAge        Bound[Age]   `json:"max_age,omitzero"`
	LocalMaxBytes Bound[int64] `json:"local_max_bytes,omitzero"`
	LocalMinBytes Bound[int64] `json:"local_min_bytes,omitzero"`
}

// Bound is a value that may be absent (the zero Bound), null, or there.
type Bound[T any] struct {
	Given bool
	Value *T // nil: null
}

// UnmarshalJSON takes null or a value.
func (b *Bound[T]) UnmarshalJSON(text []byte) error {
	b.Given = true
	if bytes.Equal(text, []byte("null")) {
		return nil
	}
	b.Value = new(T)
	return json.Unmarshal(text, b.Value)
}

// MarshalJSON writes null or the value.
func (b Bound[T]) MarshalJSON() ([]byte, error) { return json.Marshal(b.Value) }

// Age is a duration as the configuration spells it: "36h", "7d".
type Age time.Duration

// UnmarshalText reads an age.
func (a *Age) UnmarshalText(text []byte) error {
	d, err := settings.ParseSpan(string(text))
	*a = Age(d)
	return err
}

// MarshalText prints an age.
func (a Age) MarshalText() ([]byte, error) { return []byte(settings.FormatSpan(time.Duration(a))), nil }

func (r RetentionRequest) change() (c admin.Retention, err error) {
	size := func(name string, b Bound[int64]) *int64 {
		unset := int64(admin.Unset)
		if b.Given && b.Value == nil {
			return &unset
		}
		if b.Value != nil && *b.Value < 0 {
			err = fmt.Errorf("%s is %d: want a number of bytes from 0, or null", name, *b.Value)
		}
		return b.Value
	}
	c = admin.Retention{
		MaxBytes: size("max_bytes", r.MaxBytes), LocalMaxBytes: size("local_max_bytes", r.LocalMaxBytes), LocalMinBytes: size("local_min_bytes", r.LocalMinBytes),
	}
	if r.MaxAge.Given {
		age := time.Duration(admin.Unset)
		if r.MaxAge.Value != nil {
			age = time.Duration(*r.MaxAge.Value)
		}
		c.MaxAge = &age
	}
	return c, err
}

// retention shows a stream's bounds, after changing them for a PUT.
func (s *surface) retention(w http.ResponseWriter, r *http.Request) {
	const hint = `send {"max_bytes":1073741824,"max_age":"7d","local_max_bytes":null,"local_min_bytes":0}, of which each may be left out`
	var req RetentionRequest
	if r.Method == http.MethodPut && !body(w, r, &req, hint) {
		return
	}
	change, err := req.change()
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error(), hint)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	st, err := s.cfg.Node.SetRetention(ctx, r.PathValue("name"), change)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, st)
}
