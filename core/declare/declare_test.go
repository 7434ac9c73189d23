package declare

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	got, err := Parse(map[string]string{
		MaxLengthBytes: "20000000000", MaxAge: "7D", MaxSegmentBytes: "500000000", FilterSize: "32",
		"initial-cluster-size": "3", "queue-leader-locator": "balanced",
	})
	want := Declared{MaxBytes: 20_000_000_000, MaxAge: 7 * 24 * time.Hour, SegmentMaxBytes: 500_000_000, FilterSize: 32}
	if err != nil || got != want {
		t.Fatalf("got %+v, %v", got, err)
	}
	window, err := Parse(map[string]string{LocalMaxBytes: "4096", LocalMinBytes: "0"})
	if err != nil || window.LocalMaxBytes != 4096 || window.LocalMinBytes == nil || *window.LocalMinBytes != 0 {
		t.Fatalf("a window gave %+v, %v", window, err)
	}
	if got, err := Parse(nil); err != nil || got != (Declared{}) {
		t.Fatalf("no arguments gave %+v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	refused := map[string][]string{
		MaxLengthBytes:  {"", "0", "-1", "1.5", "10GB", "9223372036854775807"},
		MaxSegmentBytes: {"0", "3000000001"},
		LocalMaxBytes:   {"0", "4095", "x"},
		LocalMinBytes:   {"-1", "1GiB"},
		FilterSize:      {"15", "256", "x"},
		MaxAge:          {"", "7", "D", "0s", "-1s", "7d", "1.5h", "101Y", "99999999999999999999s"},
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		for _, value := range refused[name] {
			_, err := Parse(map[string]string{name: value})
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "want") {
				t.Errorf("%s = %q: got error %v", name, value, err)
			}
		}
	}
}

func TestAgeUnits(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1s": time.Second, "2m": 2 * time.Minute, "3h": 3 * time.Hour, "1D": 24 * time.Hour, "1M": 720 * time.Hour, "100Y": maxAge,
	} {
		if got, err := age(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}

// What FormatAge prints is read back as it was, rounded up to a second.
func TestFormatAge(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		36 * time.Hour: 36 * time.Hour, time.Second: time.Second, 1500 * time.Millisecond: 2 * time.Second, maxAge: maxAge,
	} {
		if got, err := age(FormatAge(d)); err != nil || got != want {
			t.Errorf("%v: got %v, %v", d, got, err)
		}
	}
}
