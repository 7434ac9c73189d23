package storetest

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"millrace/actors/port"
)

// Run checks the store that open returns, a fresh one for each part.
func Run(t *testing.T, open func(t *testing.T) port.ObjectStore) {
	for _, part := range []struct {
		name string
		f    func(t *testing.T, s port.ObjectStore)
	}{
		{"an object comes back", putGet},
		{"a put reads the body from its beginning", putSeeks},
		{"a put takes the checksum when the body is read", putLate},
		{"a put replaces", putReplaces},
		{"if absent refuses what is there", ifAbsent},
		{"if absent lets one win", ifAbsentRace},
		{"a wrong checksum leaves nothing", checksums},
		{"a body that fails leaves nothing", brokenBody},
		{"a put that is given up is whole or nothing", givenUp},
		{"what is missing is not found", missing},
		{"keys outside the rules are refused", badKeys},
		{"ranges end with the object", ranges},
		{"objects over the limit are not handed out whole", tooLarge},
		{"delete takes many and does not mind missing ones", deletes},
		{"a deleted object's folder can be used again", deleteAndPut},
		{"a listing is in the order of the keys", listOrder},
		{"a listing has pages", listPages},
		{"a prefix is text", listPrefix},
		{"a probe leaves nothing", probe},
		{"a context that ended stops everything", ended},
		{"operations are safe together", together},
	} {
		t.Run(part.name, func(t *testing.T) { part.f(t, open(t)) })
	}
}

// class fails the test unless err is a *port.StoreError of the class.
func class(t *testing.T, what string, err error, want port.Class) {
	t.Helper()
	if _, ok := errors.AsType[*port.StoreError](err); !ok || !errors.Is(err, want) || port.ClassOf(err) != want {
		t.Fatalf("%s: got error %v (%T), want a *StoreError of class %q", what, err, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sum(b string) uint32 { return crc32.Checksum([]byte(b), crc32.MakeTable(crc32.Castagnoli)) }

func tryPut(ctx context.Context, s port.ObjectStore, key, body string, absent bool) error {
	return s.Put(ctx, key, port.NewBody(strings.NewReader(body), sum(body)), int64(len(body)), absent)
}

func put(t *testing.T, s port.ObjectStore, key, body string) {
	t.Helper()
	must(t, tryPut(t.Context(), s, key, body, false))
}

func get(t *testing.T, s port.ObjectStore, key string) string {
	t.Helper()
	b, err := s.Get(t.Context(), key)
	must(t, err)
	return string(b)
}

func putGet(t *testing.T, s port.ObjectStore) {
	for key, body := range map[string]string{"a": "hello", "p/q/r/s.fragment": "deep", "p/q/empty": "",
		"p/" + strings.Repeat("x", 255): "long", "p/!~(')*$&+,;=:@": "odd"} {
		put(t, s, key, body)
		if got := get(t, s, key); got != body {
			t.Errorf("%s: got %q, want %q", key, got, body)
		}
	}
}

func putSeeks(t *testing.T, s port.ObjectStore) {
	body := strings.NewReader("hello")
	if _, err := body.Seek(3, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	must(t, s.Put(t.Context(), "a", port.NewBody(body, sum("hello")), 5, false))
	must(t, s.Put(t.Context(), "b", port.NewBody(body, sum("hello")), 5, false))
	if get(t, s, "a") != "hello" || get(t, s, "b") != "hello" {
		t.Error("the body was not read from its beginning")
	}
}

func putLate(t *testing.T, s port.ObjectStore) {
	must(t, s.Probe(t.Context())) // which may learn of a better way to put such a body
	for key, text := range map[string]string{"p/empty": "", "p/small": "hello", "p/large": strings.Repeat("0123456789", 300_000)} {
		must(t, s.Put(t.Context(), key, late(text, 0), int64(len(text)), false))
		if get(t, s, key) != text {
			t.Errorf("%s came back otherwise", key)
		}
		class(t, "wrong checksum of "+key, s.Put(t.Context(), "p/new", late(text, 1), int64(len(text)), false), port.Checksum)
		class(t, "shorter than announced "+key, s.Put(t.Context(), "p/new", late(text, 0), int64(len(text))+1, false), port.Checksum)
		class(t, "longer than announced "+key, s.Put(t.Context(), "p/new", late(text+"x", 0), int64(len(text)), false), port.Checksum)
	}
	class(t, "if absent", s.Put(t.Context(), "p/small", late("second", 0), 6, true), port.Exists)
	must(t, s.Put(t.Context(), "p/absent", late("first", 0), 5, true))
	onlyKeys(t, s, "p/absent", "p/empty", "p/large", "p/small")
}

func putReplaces(t *testing.T, s port.ObjectStore) {
	put(t, s, "p/a", "a longer first version")
	put(t, s, "p/a", "second")
	if got := get(t, s, "p/a"); got != "second" {
		t.Errorf("got %q", got)
	}
}

func ifAbsent(t *testing.T, s port.ObjectStore) {
	must(t, tryPut(t.Context(), s, "p/a", "first", true))
	class(t, "the second put", tryPut(t.Context(), s, "p/a", "second", true), port.Exists)
	if got := get(t, s, "p/a"); got != "first" {
		t.Errorf("got %q", got)
	}
}

func ifAbsentRace(t *testing.T, s port.ObjectStore) {
	var won atomic.Int32
	var winner atomic.Value
	var wg sync.WaitGroup
	for i := range 8 {
		body := strings.Repeat(string(rune('a'+i)), 1000)
		wg.Go(func() {
			err := tryPut(t.Context(), s, "p/a", body, true)
			if err == nil {
				won.Add(1)
				winner.Store(body)
			} else if port.ClassOf(err) != port.Exists {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || get(t, s, "p/a") != winner.Load() {
		t.Errorf("%d puts won, or the object is not the winner's", won.Load())
	}
}

func checksums(t *testing.T, s port.ObjectStore) {
	put(t, s, "p/old", "old")
	for what, c := range map[string]struct {
		size int64
		crc  uint32
	}{"checksum": {5, sum("hello") + 1}, "shorter than announced": {6, sum("hello")},
		"longer than announced": {4, sum("hell")}, "negative": {-1, 0}} {
		for _, key := range []string{"p/new", "p/old"} {
			err := s.Put(t.Context(), key, port.NewBody(strings.NewReader("hello"), c.crc), c.size, false)
			class(t, what, err, port.Checksum)
		}
	}
	onlyKeys(t, s, "p/old")
	if got := get(t, s, "p/old"); got != "old" {
		t.Errorf("a refused put changed the object to %q", got)
	}
}

// failing is a body whose second block can't be read.
type failing struct{ io.ReadSeeker }

var errBody = errors.New("segment was trimmed")

func (f failing) Read(p []byte) (int, error) {
	n, err := f.ReadSeeker.Read(p)
	if errors.Is(err, io.EOF) {
		err = errBody
	}
	return n, err
}

func brokenBody(t *testing.T, s port.ObjectStore) {
	err := s.Put(t.Context(), "p/a", port.NewBody(failing{strings.NewReader("hello")}, sum("hello")), 10, false)
	if !errors.Is(err, errBody) {
		t.Errorf("got %v, want the body's own error", err)
	}
	onlyKeys(t, s)
}

// cancelling ends its reader's context when so much was read.
type cancelling struct {
	io.ReadSeeker
	left   int
	cancel func()
}

func (c *cancelling) Read(p []byte) (int, error) {
	n, err := c.ReadSeeker.Read(p)
	if c.left -= n; c.left <= 0 {
		c.cancel()
	}
	return n, err
}

// givenUp ends a put in the middle of its body. The store may be faster, but nobody ever
// sees a part.
func givenUp(t *testing.T, s port.ObjectStore) {
	text := strings.Repeat("x", 4<<20)
	put(t, s, "p/old", "old")
	for key, before := range map[string]string{"p/new": "", "p/old": "old"} {
		ctx, cancel := context.WithCancel(t.Context())
		body := &cancelling{strings.NewReader(text), 1 << 20, cancel}
		err := s.Put(ctx, key, port.NewBody(body, sum(text)), int64(len(text)), false)
		if err != nil {
			class(t, "Put", err, port.Timeout)
		}
		got, getErr := s.Get(t.Context(), key)
		if string(got) != text && (err == nil || string(got) != before || before == "" && !port.IsNotFound(getErr)) {
			t.Errorf("%s: %d bytes after a put that returned %v (%v)", key, len(got), err, getErr)
		}
	}
}

// onlyKeys fails the test unless these are all the objects.
func onlyKeys(t *testing.T, s port.ObjectStore, want ...string) {
	t.Helper()
	page, more, err := s.List(t.Context(), "", "", 0)
	must(t, err)
	if got := keys(page); more || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("listed %v (more: %v), want %v", got, more, want)
	}
}

func keys(page []port.ObjectInfo) []string {
	var all []string
	for _, o := range page {
		all = append(all, o.Key)
	}
	return all
}

func missing(t *testing.T, s port.ObjectStore) {
	put(t, s, "p/a", "hello")
	for _, key := range []string{"b", "p", "p/b", "p/a/b", "p/q/r"} {
		_, err := s.Get(t.Context(), key)
		class(t, "Get "+key, err, port.NotFound)
		for n := range int64(2) {
			_, err = s.GetRange(t.Context(), key, 0, n)
			class(t, "GetRange "+key, err, port.NotFound)
		}
	}
}

func badKeys(t *testing.T, s port.ObjectStore) {
	for _, key := range []string{"", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", ".tmp/x", "a/.b",
		"a b", "a\\b", "a\nb", "a\x00b", "ä", strings.Repeat("x", 256), strings.Repeat("x/", 450) + "xx"} {
		class(t, "Put "+key, tryPut(t.Context(), s, key, "x", false), port.Denied)
		_, err := s.Get(t.Context(), key)
		class(t, "Get "+key, err, port.Denied)
		_, err = s.GetRange(t.Context(), key, 0, 1)
		class(t, "GetRange "+key, err, port.Denied)
		failed, err := s.Delete(t.Context(), []string{key})
		must(t, err)
		if len(failed) != 1 || failed[0].Key != key {
			t.Fatalf("Delete %q: failed %v", key, failed)
		}
		class(t, "Delete "+key, failed[0].Err, port.Denied)
	}
	onlyKeys(t, s)
}

func ranges(t *testing.T, s port.ObjectStore) {
	put(t, s, "p/a", "0123456789")
	for _, c := range []struct {
		off, n int64
		want   string
	}{{0, 10, "0123456789"}, {0, 3, "012"}, {7, 3, "789"}, {7, 4, "789"}, {9, 100, "9"}, {10, 1, ""}, {50, 5, ""},
		{3, 0, ""}, {0, port.MaxGet, "0123456789"}, {1 << 60, port.MaxGet, ""}} {
		got, err := s.GetRange(t.Context(), "p/a", c.off, c.n)
		if err != nil || string(got) != c.want {
			t.Errorf("GetRange(%d, %d): %q, %v; want %q", c.off, c.n, got, err, c.want)
		}
	}
	for _, c := range [][2]int64{{-1, 1}, {0, -1}, {0, port.MaxGet + 1}} {
		if _, err := s.GetRange(t.Context(), "p/a", c[0], c[1]); err == nil {
			t.Errorf("GetRange(%d, %d) succeeded", c[0], c[1])
		}
	}
}

func tooLarge(t *testing.T, s port.ObjectStore) {
	body := make([]byte, port.MaxGet+1)
	crc := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
	must(t, s.Put(t.Context(), "p/a", port.NewBody(bytes.NewReader(body), crc), int64(len(body)), false))
	_, err := s.Get(t.Context(), "p/a")
	class(t, "Get of a large object", err, port.Unclassified)
	b, err := s.GetRange(t.Context(), "p/a", port.MaxGet, 10)
	must(t, err)
	if len(b) != 1 {
		t.Errorf("GetRange at its end: %d bytes", len(b))
	}
}
