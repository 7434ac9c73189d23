package s3store

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"pgregory.net/rapid"

	"millrace/actors/port"
)

// Whoever reads a body, in whatever pieces and with seeks between them, gets its bytes,
// and each of them once from the source if nobody seeks back.
func TestBodyIsItsSource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "bytes")
		src := &counted{ReadSeeker: bytes.NewReader(want)}
		if _, err := src.Seek(rapid.Int64Range(0, int64(len(want))).Draw(t, "source stands at"), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		b := newBody(src, int64(len(want)), sum(want))
		at, back := int64(0), false
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
				to := rapid.Int64Range(0, at).Draw(t, "back to")
				if _, err := b.Seek(to, io.SeekStart); err != nil {
					t.Fatal(err)
				}
				back = back || to != at
				at = to
			default:
				p := make([]byte, rapid.IntRange(1, 64).Draw(t, "piece"))
				n, err := b.Read(p)
				if err != nil || n == 0 || !bytes.Equal(p[:n], want[at:at+int64(n)]) {
					t.Fatalf("read %d at %d: %v", n, at, err)
				}
				at += int64(n)
			}
		}
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("at its end: %v", err)
		}
		if n := src.read.Load(); !back && n != int64(len(want)) {
			t.Fatalf("%d bytes were read of %d", n, len(want))
		}
	})
}

// What is wrong shows before the last byte is out.
func TestABodyThatIsWrongIsNeverWhole(t *testing.T) {
	good := []byte("0123456789")
	for name, b := range map[string]*body{
		"checksum":  newBody(bytes.NewReader(good), 10, sum(good)+1),
		"too long":  newBody(bytes.NewReader(good), 9, sum(good[:9])),
		"too short": newBody(bytes.NewReader(good), 11, sum(good)),
		"no end":    newBody(failing{bytes.NewReader(good)}, 10, sum(good)),
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

// failing is a body whose end can't be read.
type failing struct{ io.ReadSeeker }

func (f failing) Read(p []byte) (int, error) {
	n, err := f.ReadSeeker.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("the segment was trimmed")
	}
	return n, err
}
