package s3store

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"millrace/actors/port"
	"millrace/test/porttest/storetest"
)

// Whoever reads a body, in whatever pieces, asks for its size and begins anew, gets its
// bytes, and each of them once from the source if nobody begins anew.
func TestBodyIsItsSource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")
		src := &counted{ReadSeeker: bytes.NewReader(want)}
		if _, err := src.Seek(rapid.Int64Range(0, int64(len(want))).Draw(t, "source stands at"), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		b := newBody(port.NewBody(src, sum(want)), int64(len(want)))
		at, anew := int64(0), false
		for at < int64(len(want)) {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				if n, err := b.Seek(0, io.SeekEnd); err != nil || n != int64(len(want)) {
					t.Fatalf("its end is %d, %v", n, err)
				}
				if n, err := b.Seek(at, io.SeekStart); err != nil || n != at {
					t.Fatalf("seek to %d: %d, %v", at, n, err)
				}
			case 1:
				if _, err := b.Seek(0, io.SeekStart); err != nil {
					t.Fatal(err)
				}
				anew = anew || at > 0
				at = 0
			default:
				p := make([]byte, rapid.IntRange(1, 64).Draw(t, "piece"))
				n, err := b.Read(p)
				if err != nil || n == 0 || !bytes.Equal(p[:n], want[at:at+int64(n)]) {
					t.Fatalf("read %d at %d: %v", n, at, err)
				}
				at += int64(n)
			}
		}
		if rest, err := io.ReadAll(b); err != nil || len(rest) != 0 {
			t.Fatalf("at its end: %d bytes, %v", len(rest), err)
		}
		if n := src.read.Load(); !anew && n != int64(len(want)) {
			t.Fatalf("%d bytes were read of %d", n, len(want))
		}
	})
}

// What is wrong shows before the last byte is out.
func TestABodyThatIsWrongIsNeverWhole(t *testing.T) {
	good := []byte("0123456789")
	changed := &storetest.Late{ReadSeeker: bytes.NewReader(good)}
	other := newBody(changed, 10)
	if crc, err := other.sum(t.Context()); err != nil || crc != sum(good) {
		t.Fatalf("its checksum is %08x, %v", crc, err)
	}
	changed.ReadSeeker = bytes.NewReader([]byte("012345678X"))
	for name, b := range map[string]*body{
		"other bytes": other,
		"too long":    newBody(port.NewBody(bytes.NewReader(good), sum(good[:9])), 9),
		"too short":   newBody(port.NewBody(bytes.NewReader(good), sum(good)), 11),
		"no end":      newBody(port.NewBody(failing{bytes.NewReader(good)}, sum(good)), 10),
	} {
		out, err := io.ReadAll(b)
		if err == nil || int64(len(out)) >= b.size {
			t.Errorf("%s: %d bytes of %d came out, %v", name, len(out), b.size, err)
		}
		if own := b.letGo(); !errors.Is(own, err) || name != "no end" && port.ClassOf(own) != port.Checksum {
			t.Errorf("%s: %v", name, own)
		}
		if n, err := b.Read(make([]byte, 1)); n != 0 || !errors.Is(err, errLetGo) {
			t.Errorf("%s: read %d after it was let go, %v", name, n, err)
		}
	}
}

// The checksum behind a body is told when all of the body was read, also of one that knows it
// before; who asked too early gets nothing more.
func TestTheChecksumOfAPartIsNotTold(t *testing.T) {
	good := []byte("0123456789")
	b := newBody(port.NewBody(bytes.NewReader(good), sum(good)), 10)
	if n, err := b.Read(make([]byte, 9)); n != 9 || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	if crc, err := b.whole(); err == nil {
		t.Fatalf("after 9 of 10 bytes it is %08x", crc)
	}
	if n, err := b.Read(make([]byte, 9)); n != 0 || err == nil {
		t.Errorf("reading goes on: %d, %v", n, err)
	}
	b = newBody(port.NewBody(bytes.NewReader(good), sum(good)), 10)
	if _, err := io.ReadAll(b); err != nil {
		t.Fatal(err)
	}
	if crc, err := b.whole(); err != nil || crc != sum(good) {
		t.Errorf("at the end it is %08x, %v", crc, err)
	}
}

// What is announced as empty is looked at: the HTTP client does not read it.
func TestAnEmptyBodyIsLookedAt(t *testing.T) {
	for what, c := range map[string]struct {
		src  io.ReadSeeker
		crc  uint32
		want string
	}{
		"it has a byte":    {strings.NewReader("x"), 0, "announced 0 bytes, got more"},
		"it can't be read": {failing{strings.NewReader("")}, 0, "the segment was trimmed"},
		"it is empty":      {strings.NewReader(""), 0, ""},
	} {
		crc, err := newBody(port.NewBody(c.src, c.crc), 0).sum(t.Context())
		if c.want == "" && (err != nil || crc != 0) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %08x, %v", what, crc, err)
		}
	}
}

// Nobody takes up a body in its middle: its checksum would be of a part.
func TestABodyIsReadFromItsBeginning(t *testing.T) {
	b := newBody(port.NewBody(bytes.NewReader(make([]byte, 10)), 0), 10)
	if _, err := b.Seek(5, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Read(make([]byte, 5)); n != 0 || err == nil {
		t.Fatalf("read %d from the middle, %v", n, err)
	}
}

// failing is a body whose end can't be read.
type failing struct{ io.ReadSeeker }

func (f failing) Read(p []byte) (int, error) {
	n, err := f.ReadSeeker.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("the segment was trimmed")
	}
	return n, err
}
