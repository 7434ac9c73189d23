// Command millrace runs a node, and asks a running one.
//
// Exit codes: 0 done, 1 failed, 2 the command line was wrong.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

const (
	exitFailed = 1
	exitUsage  = 2
)

// execute runs one command line and returns its exit code.
func execute(args []string, out, err io.Writer) int {
	g := &globals{out: out, log: err, err: plain{err}}
	root := newRootCommand(g)
	root.SetArgs(args)
	failed := root.Execute()
	if failed == nil {
		return 0
	}
	var f *failure
	if errors.As(failed, &f) {
		fmt.Fprintf(g.err, "millrace: %s\n", indent(f.Error()))
		if f.hint != "" {
			fmt.Fprintf(g.err, "  %s\n", indent(f.hint))
		}
		return exitFailed
	}
	fmt.Fprintf(g.err, "millrace: %s\n  see: %s --help\n", indent(failed.Error()), named(root, args))
	return exitUsage
}

// indent keeps the further lines of a message apart from the next message.
func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n  ") }

// failure is what a command met that was asked for rightly. Every other error is a
// mistake in the command line.
type failure struct {
	what string
	hint string // what to do next; may be empty
	err  error  // cause; may be nil

	status int    // of the node's refusal; 0 if it is none
	why    string // what it waits for, of one for whose time is over
	local  bool   // it is not the node's: nothing there would mend it
}

func (f *failure) Error() string {
	switch {
	case f.err == nil:
		return f.what
	case f.what == "":
		return f.err.Error()
	}
	return f.what + ": " + f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }
