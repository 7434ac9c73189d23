package otp

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// patience is how long Erlang may take for one line.
const patience = 30 * time.Second

//go:embed *.erl
var sources embed.FS

// Erlang is a running Erlang that answers lines with lines.
type Erlang struct {
	Release string // as it says itself
	cmd     *exec.Cmd
	in, out *os.File
	lines   *bufio.Reader

	complaints bytes.Buffer // what it wrote to standard error; read it when it has ended
}

// StartErlang compiles one of this package's modules into dir and runs its main/0.
func StartErlang(dir, module string, flags ...string) (*Erlang, error) {
	source, err := sources.ReadFile(module + ".erl")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, module+".erl")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("erlc", "-Werror", "-o", dir, file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile %s.erl: %w (scripts/need-erlang installs Erlang)\n%s", module, err, out)
	}
	e := &Erlang{cmd: exec.Command("erl", append([]string{"-noinput", "-pa", dir, "-s", module, "main"}, flags...)...)}
	e.cmd.Stderr = &e.complaints
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	e.cmd.Stdin, e.cmd.Stdout, e.in, e.out, e.lines = stdin, stdout, in, out, bufio.NewReader(out)
	if err := e.cmd.Start(); err != nil {
		return nil, fmt.Errorf("run erl: %w", err)
	}
	if err := errors.Join(stdin.Close(), stdout.Close()); err != nil {
		return nil, err
	}
	e.Release, err = e.read()
	return e, err
}

// Ask sends one line and returns the answer.
func (e *Erlang) Ask(line string) (string, error) {
	if _, err := e.in.WriteString(line + "\n"); err != nil {
		return "", fmt.Errorf("erl has ended before %q: %w", line, err)
	}
	answer, err := e.read()
	if err != nil {
		return "", fmt.Errorf("erl does not answer %q: %w", line, err)
	}
	return answer, nil
}

func (e *Erlang) read() (string, error) {
	if err := e.out.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	line, err := e.lines.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// Run runs a program and returns its answers, one for each line.
func (e *Erlang) Run(p Program) ([]string, error) {
	var answers []string
	for _, line := range p.Lines() {
		answer, err := e.Ask(line)
		if err != nil {
			return nil, err
		}
		answers = append(answers, p.normal(line, answer))
	}
	_, err := e.Ask("end")
	return answers, err
}

// Close ends it.
func (e *Erlang) Close() error {
	err := e.in.Close()
	if ended := e.cmd.Wait(); ended != nil {
		err = fmt.Errorf("erl: %w\n%s", ended, e.complaints.String())
	}
	return errors.Join(err, e.out.Close())
}
