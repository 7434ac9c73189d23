package main

import (
	"fmt"
	"os"
	"sync"
)

// screen is standard output with at most one line, the last, that is written over.
var screen = newTerminal(os.Stdout)

type terminal struct {
	mu       sync.Mutex
	out      *os.File
	overtype bool // the output is a terminal
	pending  bool // the last line is to be written over
}

func newTerminal(out *os.File) *terminal {
	info, err := out.Stat()
	return &terminal{out: out, overtype: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// print writes a line that stays.
func (t *terminal) print(text string) { t.write(text, false) }

// live writes a line that the next one replaces, on a terminal.
func (t *terminal) live(text string) { t.write(text, true) }

func (t *terminal) write(text string, live bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending {
		fmt.Fprint(t.out, "\r\x1b[K")
	}
	t.pending = live && t.overtype
	if !t.pending {
		text += "\n"
	}
	fmt.Fprint(t.out, text)
}
