// Command tally runs one step of the checks, times it against its budget and counts its tests, or reports on the steps that ran.
//
//	tally -log FILE -step NAME -budget 6m COMMAND...   run, pass the output on, append the result to FILE
//	tally -log FILE                                   print what each step took and "N passed, N failed"
//
// What the command prints as `go test -json` is counted test by test, sub-tests
// too, and only failures are shown in full; a step without such output, a linter
// or the demo, counts as one test. It is a program of ours, and not gotestsum,
// because the closing line must add up several runs of go test and steps that are
// none.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// result is what a step leaves in the log, one JSON line each.
type result struct {
	Step    string
	Budget  time.Duration
	Took    time.Duration
	Passed  int
	Failed  int
	Skipped int
}

func main() {
	log := flag.String("log", "bin/steps.json", "file that holds the results of the steps")
	step := flag.String("step", "", "name of the step to run")
	budget := flag.Duration("budget", 0, "time the step may take; more is reported, it does not fail")
	flag.Parse()
	code, err := 0, error(nil)
	if *step == "" {
		code, err = report(*log, os.Stdout)
	} else {
		code, err = run(*log, *step, *budget, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

// run runs the command and gives its exit code.
func run(log, step string, budget time.Duration, command []string) (int, error) {
	if len(command) == 0 {
		return 0, fmt.Errorf("step %s: no command given", step)
	}
	began := time.Now()
	out, in := io.Pipe()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = in, os.Stderr
	cmd.WaitDelay = 10 * time.Second // for what it left running and still holds its output
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("step %s: %w", step, err)
	}
	counted := make(chan counts)
	go func() { counted <- count(out, os.Stdout) }()
	err := cmd.Wait()
	if cerr := in.Close(); cerr != nil {
		return 0, cerr
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		fmt.Fprintf(os.Stderr, "tally: step %s left something running that holds its output\n", step)
	}
	code := exitCode(err)
	c := (<-counted).settle(code)
	return code, write(log, result{step, budget, time.Since(began), c.passed, c.failed, c.skipped})
}

// exitCode is what Wait's error stands for.
func exitCode(err error) int {
	var failed *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &failed):
		return max(failed.ExitCode(), 1)
	}
	return 1
}

func write(log string, r result) error {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(r), f.Close())
}

// report prints the steps in the log and, last, the line that sums them up. The
// exit code is 1 when anything failed or nothing ran.
func report(log string, to io.Writer) (int, error) {
	f, err := os.Open(log)
	if err != nil {
		return 0, err
	}
	var passed, failed, skipped int
	for dec := json.NewDecoder(f); ; {
		var r result
		err := dec.Decode(&r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, errors.Join(fmt.Errorf("read %s: %w", log, err), f.Close())
		}
		passed, failed, skipped = passed+r.Passed, failed+r.Failed, skipped+r.Skipped
		fmt.Fprintln(to, r)
	}
	closing := fmt.Sprintf("%d passed, %d failed", passed, failed)
	if skipped > 0 {
		closing += fmt.Sprintf(", %d skipped", skipped)
	}
	fmt.Fprintln(to, closing)
	if failed > 0 || passed == 0 {
		return 1, f.Close()
	}
	return 0, f.Close()
}

// String is the step's line in the report.
func (r result) String() string {
	verdict := "ok"
	if r.Took > r.Budget {
		verdict = "OVER BUDGET"
	}
	if r.Failed > 0 {
		verdict = "FAILED"
	}
	return fmt.Sprintf("%-16s took %6.1f s of %4.0f s  %5d passed %3d failed  %s",
		r.Step, r.Took.Seconds(), r.Budget.Seconds(), r.Passed, r.Failed, verdict)
}
