package actors

import (
	"context"
)

// Task is work a process does beside its callbacks.
type Task struct {
	h      *Handle
	name   string
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// Task runs f on a goroutine of its own. What f returns, unless nil, is sent to the
// process as a message, also after Cancel; when the process is stopping it is dropped.
// The context ends with the process's own or by Cancel. A panic or runtime.Goexit in f
// crashes the process, once it is done with the present message. Once the process has
// ended f does not run.
func (c *Context) Task(name string, f func(ctx context.Context) any) *Task {
	ctx, cancel := context.WithCancelCause(c.h.ctx)
	t := &Task{h: c.h, name: name, cancel: cancel, done: make(chan struct{})}
	if !c.h.acquire() {
		cancel(nil)
		close(t.done)
		return t
	}
	go t.run(ctx, f)
	return t
}

// Cancel ends the task's context, with a cause that context.Cause tells; nil: context.Canceled.
// The task ends when f heeds that.
func (t *Task) Cancel(cause error) { t.cancel(cause) }

// Done closes when f has returned and its result is queued. A Terminate that must not
// leave work behind waits here.
func (t *Task) Done() <-chan struct{} { return t.done }

func (t *Task) run(ctx context.Context, f func(ctx context.Context) any) {
	returned := false
	defer t.h.release()
	defer close(t.done)
	defer t.cancel(nil)
	defer func() {
		if returned {
			return
		}
		why := crashReason(recover()).Reason
		why.Detail = "task " + t.name + ": " + why.Detail
		t.h.fail(why)
	}()
	result := f(ctx)
	returned = true
	t.h.Send(result)
}
