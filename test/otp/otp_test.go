package otp

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	budget = flag.Duration("for", 10*time.Second, "how long random programs are compared")
	seed   = flag.Uint64("seed", 0, "the first random program; 0: a random one")
)

// TestRandomPrograms sends random programs to Erlang's supervisor and to ours. A failure
// prints the shrunk program with both answers, ready for testdata.
func TestRandomPrograms(t *testing.T) {
	erl := &session{t: t}
	defer erl.close()
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	began, n := time.Now(), uint64(0)
	for ; time.Since(began) < *budget && !t.Failed(); n++ {
		if lines := generate(first + n); differ(t, erl, lines) != "" {
			lines = shrink(lines, func(lines []string) bool { return differ(t, erl, lines) != "" })
			t.Errorf("-seed %d, shrunk: %s", first+n, differ(t, erl, lines))
		}
	}
	t.Logf("%d programs from -seed %d in %v", n, first, time.Since(began).Round(time.Second))
}

// differ runs a program on both, and says how they differ.
func differ(t *testing.T, erl *session, lines []string) string {
	p, err := Parse(lines)
	if err != nil {
		return "" // of shrinking; a generated one that does not parse fails with Erlang
	}
	theirs, err := erl.run(p)
	if err != nil {
		return fmt.Sprintf("%v\n%s", err, strings.Join(lines, "\n"))
	}
	if got := inBubble(t, p); !slices.Equal(got, theirs) {
		return "the answers differ\n" + transcript(lines, theirs, got)
	}
	return ""
}

// shrink takes lines and words out of a program for as long as it still fails.
func shrink(lines []string, fails func([]string) bool) []string {
	began := time.Now()
	for smaller := true; smaller && time.Since(began) < time.Minute; {
		smaller = false
		for i := len(lines) - 1; i > 0; i-- {
			if less := slices.Delete(slices.Clone(lines), i, i+1); fails(less) {
				lines, smaller = less, true
				continue
			}
			words := strings.Fields(lines[i])
			for j := len(words) - 1; j > 1; j-- {
				less := slices.Clone(lines)
				less[i] = strings.Join(slices.Delete(slices.Clone(words), j, j+1), " ")
				if fails(less) {
					lines, words, smaller = less, strings.Fields(less[i]), true
				}
			}
		}
	}
	return lines
}

// session runs programs on an Erlang, a fresh one after it failed.
type session struct {
	t   *testing.T
	erl *Erlang
}

func (s *session) run(p Program) ([]string, error) {
	if s.erl == nil {
		erl, err := StartErlang(s.t.TempDir(), "driver", "+S", "1:1", "+sbwt", "none")
		if err != nil {
			s.t.Fatal(err)
		}
		s.erl = erl
	}
	answers, err := s.erl.Run(p)
	if err != nil {
		s.close()
	}
	return answers, err
}

func (s *session) close() {
	if s.erl != nil {
		if err := s.erl.Close(); err != nil {
			s.t.Log(err)
		}
		s.erl = nil
	}
}

func inBubble(t *testing.T, p Program) (answers []string) {
	synctest.Test(t, func(*testing.T) { answers = Run(p) })
	return answers
}

// transcript prints a program with OTP's answers, and ours where they differ.
func transcript(lines, theirs, got []string) string {
	var b strings.Builder
	for i, line := range lines {
		fmt.Fprintln(&b, line)
		if theirs[i] != "ok" {
			fmt.Fprintln(&b, ">", theirs[i])
		}
		if got != nil && got[i] != theirs[i] {
			fmt.Fprintln(&b, "! we answer:", got[i])
		}
	}
	return b.String()
}
