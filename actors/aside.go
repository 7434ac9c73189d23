package actors

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// patience is how long code that is not ours is waited for where a process, or its parent,
// depends on it. What does not block needs microseconds.
const patience = 100 * time.Millisecond

// Aside runs f, which need not be trusted, on a goroutine of its own and waits for it for
// 100 ms at most. A panic or runtime.Goexit in f ends f and nothing else; when f takes
// longer it goes on beside the caller. A process's own work is a Task.
func Aside(f func()) {
	ask(func() struct{} {
		f()
		return struct{}{}
	})
}

// ask runs f like Aside and returns its answer, or what kept it from giving one.
func ask[T any](f func() T) (T, string) {
	type answer struct {
		of      T
		trouble string
	}
	heard := make(chan answer, 1) // f may answer when nobody listens any more
	go func() {
		a := answer{trouble: "asking for it calls runtime.Goexit"}
		defer func() {
			if recover() != nil {
				a.trouble = "asking for it panics"
			}
			heard <- a
		}()
		a.of = f()
		a.trouble = ""
	}()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case a := <-heard:
		return a.of, a.trouble
	case <-limit.C:
		var none T
		return none, "it does not come within " + patience.String()
	}
}

// textOf is the text of what code panicked with. The methods of that may fail in any way;
// they may wait for a lock that the code held when it panicked.
func textOf(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	text, trouble := ask(func() string { return ownText(v) })
	if trouble != "" {
		return noText(v, trouble)
	}
	return text
}

// ownText shows of a value without a text only what can't be changed meanwhile, as a
// panic that ends a program does: whoever panicked may have left its map to others.
func ownText(v any) string {
	switch v := v.(type) {
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	}
	if k := reflect.TypeOf(v).Kind(); k < reflect.Array || k == reflect.String {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("a value of type %T", v)
}

func noText(v any, trouble string) string {
	return fmt.Sprintf("%T, whose text can't be had: %s", v, trouble)
}

// outcome is what an Init came to, or why a start was given up.
type outcome struct {
	err     error // nil: it runs
	ignored bool
	text    string // of err
}

// outcomeOf asks an error all it will ever be asked here: what comes of its methods once
// may not come again, and later it is the parent that would wait for it.
func outcomeOf(err error) outcome {
	if err == nil {
		return outcome{}
	}
	out, trouble := ask(func() outcome {
		return outcome{err: err, ignored: errors.Is(err, ErrIgnore), text: err.Error()}
	})
	if trouble != "" {
		return outcome{err: err, text: noText(err, trouble)}
	}
	return out
}
