package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"millrace/actors/port"
)

func deletes(t *testing.T, s port.ObjectStore) {
	var batch []string
	for i := range port.MaxDelete {
		batch = append(batch, fmt.Sprintf("p/%03d/%d", i%3, i))
	}
	for _, key := range batch[:20] {
		put(t, s, key, key)
	}
	put(t, s, "p/000/keep", "x")
	put(t, s, "q", "x")
	failed, err := s.Delete(t.Context(), batch)
	if err != nil || len(failed) != 0 {
		t.Fatalf("Delete: failed %v, %v", failed, err)
	}
	onlyKeys(t, s, "p/000/keep", "q")
	failed, err = s.Delete(t.Context(), []string{"q/below", "p", "p/000", "none/at/all"})
	if err != nil || len(failed) != 0 {
		t.Fatalf("Delete of keys that name no object: failed %v, %v", failed, err)
	}
	onlyKeys(t, s, "p/000/keep", "q")
	_, err = s.Delete(t.Context(), append(batch, "one too many"))
	class(t, "Delete of too many keys", err, port.Denied)
	if failed, err := s.Delete(t.Context(), nil); err != nil || len(failed) != 0 {
		t.Errorf("Delete of nothing: %v, %v", failed, err)
	}
}

func deleteAndPut(t *testing.T, s port.ObjectStore) {
	for range 3 {
		put(t, s, "p/q/r/a", "x")
		if failed, err := s.Delete(t.Context(), []string{"p/q/r/a"}); err != nil || len(failed) != 0 {
			t.Fatalf("Delete: %v, %v", failed, err)
		}
		_, err := s.Get(t.Context(), "p/q/r/a")
		class(t, "Get after Delete", err, port.NotFound)
	}
}

// odd are keys whose order as text is not the order of a walk through folders.
var odd = []string{"a-b", "a-b/c", "a.d", "a/b", "a/b-c", "a/c/d", "a0", "b/a", "b/b/b", "c"}

func listOrder(t *testing.T, s port.ObjectStore) {
	// Leave out those that are another's folder: a store may refuse them.
	want := slices.DeleteFunc(slices.Clone(odd), func(key string) bool { return key == "a-b" })
	for _, key := range slices.Backward(want) {
		put(t, s, key, key)
	}
	onlyKeys(t, s, want...)
	page, _, err := s.List(t.Context(), "", "", 0)
	must(t, err)
	for _, o := range page {
		if o.Size != int64(len(o.Key)) || o.Modified <= 0 {
			t.Errorf("%s: size %d, modified %s", o.Key, o.Size, o.Modified)
		}
	}
}

// listPages asks from each place, also between keys, for pages of each size.
func listPages(t *testing.T, s port.ObjectStore) {
	all := slices.DeleteFunc(slices.Clone(odd), func(key string) bool { return key == "a-b" })
	for _, key := range all {
		put(t, s, key, key)
	}
	for _, prefix := range []string{"", "a", "a/", "b/b"} {
		for _, after := range append([]string{"", "a", "a/", "a/b/", "a/zz", "zz", "b"}, all...) {
			var want []string
			for _, key := range all {
				if strings.HasPrefix(key, prefix) && key > after {
					want = append(want, key)
				}
			}
			for size := range len(all) + 2 {
				checkPage(t, s, prefix, after, size, want)
			}
		}
	}
}

func checkPage(t *testing.T, s port.ObjectStore, prefix, after string, size int, want []string) {
	t.Helper()
	page, more, err := s.List(t.Context(), prefix, after, size)
	must(t, err)
	if size == 0 {
		size = port.MaxList
	}
	wantMore := len(want) > size
	want = want[:min(size, len(want))]
	if got := keys(page); !slices.Equal(got, want) || more != wantMore {
		t.Fatalf("List(%q, after %q, %d): %v, more %v; want %v, %v", prefix, after, size, got, more, want, wantMore)
	}
}

func listPrefix(t *testing.T, s port.ObjectStore) {
	for _, key := range []string{"p/1/data/x", "p/10/data/y", "p/2/data/z"} {
		put(t, s, key, key)
	}
	for prefix, want := range map[string]int{"p/1": 2, "p/1/": 1, "p/": 3, "p": 3, "p/1/data/x": 1, "p/1/data/xx": 0,
		"q": 0, "p/3/": 0, "../": 0, "/": 0, "p/../p/": 0, ".": 0} {
		page, _, err := s.List(t.Context(), prefix, "", 0)
		must(t, err)
		if len(page) != want {
			t.Errorf("List(%q): %v, want %d", prefix, keys(page), want)
		}
	}
}

func probe(t *testing.T, s port.ObjectStore) {
	must(t, s.Probe(t.Context()))
	onlyKeys(t, s)
}

func ended(t *testing.T, s port.ObjectStore) {
	put(t, s, "p/a", "old")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	class(t, "Put", tryPut(ctx, s, "p/a", "new", false), port.Timeout)
	_, err := s.Get(ctx, "p/a")
	class(t, "Get", err, port.Timeout)
	_, err = s.GetRange(ctx, "p/a", 0, 1)
	class(t, "GetRange", err, port.Timeout)
	_, err = s.Delete(ctx, []string{"p/a"})
	class(t, "Delete", err, port.Timeout)
	_, _, err = s.List(ctx, "", "", 0)
	class(t, "List", err, port.Timeout)
	class(t, "Probe", s.Probe(ctx), port.Timeout)
	if got := get(t, s, "p/a"); got != "old" {
		t.Errorf("got %q", got)
	}
}

// patient asks again for what fails for the moment, as those who use a store do.
func patient(ask func() error) (err error) {
	for range 20 {
		if err = ask(); !port.ClassOf(err).Transient() {
			return err
		}
	}
	return err
}

// together puts, lists and deletes in shared folders at the same time.
func together(t *testing.T, s port.ObjectStore) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for round := range 10 {
				key := fmt.Sprintf("p/%d/%d.%d", round%2, i, round)
				if err := patient(func() error { return tryPut(t.Context(), s, key, key, i%2 == 0) }); err != nil {
					t.Error(err)
				}
				if b, err := s.Get(t.Context(), key); err != nil || string(b) != key {
					t.Errorf("%s: %q, %v", key, b, err)
				}
				if _, _, err := s.List(t.Context(), "p/", "", 5); err != nil {
					t.Error(err)
				}
				if failed, err := s.Delete(t.Context(), []string{key}); err != nil || len(failed) != 0 {
					t.Errorf("Delete %s: %v, %v", key, failed, err)
				}
			}
		})
	}
	wg.Wait()
	onlyKeys(t, s)
}
