package manifest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/core/fragment"
	"millrace/core/pos"
)

var update = flag.Bool("update", false, "write the golden files anew")

func contains(s, part string) bool { return strings.Contains(s, part) }

func TestGolden(t *testing.T) {
	m := built(t, entry(5, 10), entry(12, 20)).Stamped(3, 17)
	golden(t, "root.hex", m.Encode())
	golden(t, "empty.hex", New(20).Stamped(3, 18).Encode())
}

func golden(t *testing.T, name string, b []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	var lines strings.Builder
	for i := 0; i < len(b); i += 16 {
		lines.WriteString(hex.EncodeToString(b[i:min(i+16, len(b))]) + "\n")
	}
	if *update {
		if err := os.WriteFile(path, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != lines.String() {
		t.Errorf("the format changed: roots in the field could not be read any more. got\n%s\nwant\n%s", &lines, want)
	}
}

func TestEveryFlippedBitAndEveryCutIsFound(t *testing.T) {
	b := built(t, entry(5, 10), entry(12, 20)).Encode()
	for bit := range len(b) * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := Decode(b); err == nil {
			t.Errorf("bit %d flipped: not found", bit)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	for n := range len(b) {
		if _, err := Decode(b[:n]); err == nil {
			t.Errorf("cut to %d bytes: not found", n)
		}
	}
}

// sealed puts a right checksum under changed bytes.
func sealed(b []byte) []byte {
	body := b[:len(b)-crcSize]
	return binary.BigEndian.AppendUint32(bytes.Clone(body), fragment.Checksum(0, body))
}

func TestWhatIsNotUnderstoodIsRefusedClearly(t *testing.T) {
	b := built(t, entry(5, 10)).Encode()
	group := bytes.Clone(b)
	group[headerSize+entrySize-1] = byte(KindGroup)
	if _, err := Decode(sealed(group)); err == nil || !contains(err.Error(), "group") || !contains(err.Error(), "upgrade") {
		t.Errorf("a group: %v", err)
	}
	group[headerSize+entrySize-1] = 9
	if _, err := Decode(sealed(group)); err == nil || !contains(err.Error(), "kind 9") {
		t.Errorf("an unknown kind: %v", err)
	}
	for _, count := range []byte{0, 2, 0xff} {
		miscounted := bytes.Clone(b)
		miscounted[headerSize-1] = count
		if _, err := Decode(sealed(miscounted)); err == nil || !contains(err.Error(), "counts") {
			t.Errorf("a count of %d: %v", count, err)
		}
	}
	newer := bytes.Clone(b)
	newer[7] = 2
	if _, err := Decode(sealed(newer)); err == nil || !contains(err.Error(), "version 2") {
		t.Errorf("a newer version: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(built(f, entry(5, 10), entry(12, 20)).Stamped(3, 17).Encode())
	f.Add(New(20).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= crcSize {
			b = sealed(b)
		}
		m, err := Decode(b)
		if err != nil {
			return
		}
		if err := m.Check(); err != nil {
			t.Errorf("decoded a manifest that is not well formed: %v", err)
		}
		if !bytes.Equal(m.Encode(), b) {
			t.Error("decoding and encoding changed the bytes")
		}
	})
}

func TestKeys(t *testing.T) {
	root := RootKey("mr", "__s_1", 3, 17, 0xabc)
	if want := "mr/__s_1/metadata/root.3.17.0000000000000abc.manifest"; root != want {
		t.Errorf("got %s, want %s", root, want)
	}
	if !strings.HasPrefix(root, RootPrefix("mr", "__s_1")) {
		t.Error("the root's name does not begin with the roots' prefix")
	}
	const name = "00000000000000000042.0000000000000abc"
	good := map[string]Key{
		root:                                         {Stream: "__s_1", Kind: ObjectRoot, Epoch: 3, Revision: 17, UID: 0xabc},
		fragment.Key("mr", "__s_1", 42, 0xabc):       {Stream: "__s_1", Kind: ObjectFragment, Offset: 42, UID: 0xabc},
		"mr/__s_1/metadata/" + name + ".group":       {Stream: "__s_1", Kind: ObjectGroup, Offset: 42, UID: 0xabc},
		"mr/__s_1/metadata/" + name + ".kgroup":      {Stream: "__s_1", Kind: ObjectKilo, Offset: 42, UID: 0xabc},
		"mr/__s_1/metadata/" + name + ".mgroup":      {Stream: "__s_1", Kind: ObjectMega, Offset: 42, UID: 0xabc},
		RootKey("mr", pos.StreamID("x-=_"), 0, 0, 0): {Stream: "x-=_", Kind: ObjectRoot},
	}
	for key, want := range good {
		if got, ok := ParseKey("mr", key); !ok || got != want {
			t.Errorf("%s: %+v, %v, want %+v", key, got, ok, want)
		}
	}
	for _, bad := range []string{
		"", "mr", "mr/cluster", "mr/__s_1/", "mr/__s_1/other/" + name + ".group", "mr/__s_1/metadata/" + name + ".xgroup",
		"mr/__s_1/metadata/root.3.17.abc.manifest", "mr/__s_1/metadata/root.3.0000000000000abc.manifest",
		"mr/__s_1/metadata/root.03.17.0000000000000abc.manifest", "mr/__s_1/metadata/root.3.17.0000000000000abc.manifest.tmp",
		"mr2/__s_1/metadata/root.3.17.0000000000000abc.manifest", "mr/__s_1/metadata/" + name + ".fragment",
		"mr/__s_1/data/" + name + ".group",
	} {
		if got, ok := ParseKey("mr", bad); ok {
			t.Errorf("%q was taken for %+v", bad, got)
		}
	}
}
