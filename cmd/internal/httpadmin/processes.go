package httpadmin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"millrace/actors/admin"
)

// RegistryPage is the answer of /registry.
type RegistryPage struct {
	Names  []admin.RegistryEntry `json:"names"`
	Total  int                   `json:"total"` // of the kind that was asked for
	Offset int                   `json:"offset"`
}

// parameters reads a query in which each key is known and given once.
func parameters(raw string, take map[string]func(text string) error) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return fmt.Errorf("the parameters cannot be read: %w", err)
	}
	for key, given := range values {
		read, known := take[key]
		switch {
		case !known:
			return fmt.Errorf("there is no parameter %q", key)
		case len(given) != 1:
			return fmt.Errorf("%s is given %d times", key, len(given))
		}
		if err := read(given[0]); err != nil {
			return fmt.Errorf("%s %q: %w", key, given[0], err)
		}
	}
	return nil
}

func into(s *string) func(string) error {
	return func(text string) error { *s = text; return nil }
}

func number(n *int) func(string) error {
	return func(text string) (err error) {
		if *n, err = strconv.Atoi(text); err != nil || *n < 0 {
			return fmt.Errorf("want a whole number from 0")
		}
		return nil
	}
}

func flag(b *bool) func(string) error {
	return func(text string) error {
		if text != "1" && text != "0" {
			return fmt.Errorf("want 1 or 0")
		}
		*b = text == "1"
		return nil
	}
}

// pageSize reads how much of a list is asked for.
func pageSize(n *int) func(string) error {
	return func(text string) (err error) {
		if *n, err = strconv.Atoi(text); err != nil || *n < 1 || *n > admin.MaxPage {
			return fmt.Errorf("want a whole number from 1 to %d", admin.MaxPage)
		}
		return nil
	}
}

func (s *surface) tree(w http.ResponseWriter, r *http.Request) {
	var q admin.TreeQuery
	err := parameters(r.URL.RawQuery, map[string]func(string) error{
		"path": into(&q.Path), "factory": into(&q.Factory), "search": into(&q.Search), "offset": number(&q.Offset), "limit": pageSize(&q.Limit),
	})
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error(), fmt.Sprintf("parameters are path, factory, search, offset and limit (1 to %d)", admin.MaxPage))
		return
	}
	tree, err := s.cfg.Node.Tree(q)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, tree)
}

// PathRequest is the body of POST /tree/terminate and /tree/restart.
type PathRequest struct {
	Path string `json:"path"`
}

// operate does something to the process that the body names.
func (s *surface) operate(done string, do func(ctx context.Context, path string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req PathRequest
		if !body(w, r, &req, `send {"path":"node/tiering/governor"}`) {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), answerTime)
		defer cancel()
		if err := do(ctx, req.Path); err != nil {
			fail(w, err)
			return
		}
		answer(w, http.StatusOK, map[string]string{done: req.Path})
	}
}

func (s *surface) registry(w http.ResponseWriter, r *http.Request) {
	var kind string
	limit, page := admin.DefaultPage, RegistryPage{Names: []admin.RegistryEntry{}}
	err := parameters(r.URL.RawQuery, map[string]func(string) error{"kind": into(&kind), "offset": number(&page.Offset), "limit": pageSize(&limit)})
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error(), fmt.Sprintf("parameters are kind, offset and limit (1 to %d)", admin.MaxPage))
		return
	}
	for _, e := range s.cfg.Node.Registry() {
		if kind != "" && e.Kind != kind {
			continue
		}
		if page.Total >= page.Offset && len(page.Names) < limit {
			page.Names = append(page.Names, e)
		}
		page.Total++
	}
	answer(w, http.StatusOK, page)
}

func (s *surface) names(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	names, err := s.cfg.Node.Names(ctx, r.PathValue("stream"))
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, RegistryPage{Names: names, Total: len(names)})
}

func (s *surface) tiering(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, s.cfg.Node.Tiering())
}

func (s *surface) setTiering(enabled bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerTime)
		defer cancel()
		t, err := s.cfg.Node.SetTiering(ctx, enabled)
		if err != nil {
			fail(w, err)
			return
		}
		answer(w, http.StatusOK, t)
	}
}

func (s *surface) claim(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	c, err := s.cfg.Node.ClaimStore(ctx)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, c)
}
