package supervision

import (
	"context"
	"errors"
	"fmt"

	"millrace/actors"
	"millrace/supervision/decide"
)

// AlreadyStarted says that there is a child of that id, and that it has a process.
type AlreadyStarted struct {
	ID     string
	Handle *actors.Handle // its present or latest incarnation
}

// Error names the child.
func (e *AlreadyStarted) Error() string { return fmt.Sprintf("child %s is already started", e.ID) }

// What a supervisor answers when it can't do what it is asked for.
var (
	// ErrAlreadyPresent: there is a child of that id, without a process, also if its restart
	// failed and will be tried again.
	ErrAlreadyPresent = errors.New("the child is already present; restart or delete it")
	// ErrNotFound: there is no child of that id.
	ErrNotFound = errors.New("no such child")
	// ErrRunning: the child has a process.
	ErrRunning = errors.New("the child is running; terminate it first")
	// ErrRestarting: the child is about to be started again.
	ErrRestarting = errors.New("the child is being restarted; terminate it first")
	// ErrStrategy: the supervisor's strategy has no such call.
	ErrStrategy = errors.New("not for a supervisor of this strategy")
)

// ChildInfo is one line of WhichChildren.
type ChildInfo struct {
	ID     string
	Handle *actors.Handle // nil without a process
	State  string         // undefined, running or restarting
	Kind   Kind
}

// The calls, as bodies of requests.
type (
	startChild struct {
		id  string
		arg any
	}
	addChild       struct{ child Child }
	terminateChild struct{ id string }
	restartChild   struct{ id string }
	deleteChild    struct{ id string }
	whichChildren  struct{}
	countChildren  struct{}
)

// StartChild starts one more child of a SimpleOneForOne supervisor from its template. id
// labels it in path and tree. The error is an *AlreadyStarted when a child of that id
// runs, actors.ErrIgnore when its init wants no process (nothing is added then), and the
// init's error otherwise, which does not touch the supervisor's budget.
func StartChild(ctx context.Context, sup *actors.Handle, id string, arg any) (*actors.Handle, error) {
	return ask[*actors.Handle](ctx, sup, startChild{id: id, arg: arg})
}

// AddChild adds a child at the end of a supervisor's list and starts it. Errors are those
// of StartChild and ErrAlreadyPresent. After actors.ErrIgnore the child is there, without
// a process, unless it is temporary.
func AddChild(ctx context.Context, sup *actors.Handle, child Child) (*actors.Handle, error) {
	return ask[*actors.Handle](ctx, sup, addChild{child: child})
}

// TerminateChild stops a child and returns when it has ended. Its specification stays,
// unless it is temporary or the supervisor is SimpleOneForOne.
func TerminateChild(ctx context.Context, sup *actors.Handle, id string) error {
	return do(ctx, sup, terminateChild{id: id})
}

// RestartChild starts a child that has no process. An init that wants none is no error.
func RestartChild(ctx context.Context, sup *actors.Handle, id string) error {
	return do(ctx, sup, restartChild{id: id})
}

// DeleteChild drops the specification of a child that has no process.
func DeleteChild(ctx context.Context, sup *actors.Handle, id string) error {
	return do(ctx, sup, deleteChild{id: id})
}

// WhichChildren lists the children, the latest first.
func WhichChildren(ctx context.Context, sup *actors.Handle) ([]ChildInfo, error) {
	return ask[[]ChildInfo](ctx, sup, whichChildren{})
}

// CountChildren counts them.
func CountChildren(ctx context.Context, sup *actors.Handle) (Counts, error) {
	return ask[Counts](ctx, sup, countChildren{})
}

func do(ctx context.Context, sup *actors.Handle, body any) error {
	_, err := sup.Call(ctx, body)
	return err
}

func ask[T any](ctx context.Context, sup *actors.Handle, body any) (T, error) {
	var none T
	answer, err := sup.Call(ctx, body)
	if err != nil {
		return none, err
	}
	v, ok := answer.(T)
	if !ok {
		return none, fmt.Errorf("%s answered %T to a supervisor's call: it is no supervisor", sup.Path(), answer)
	}
	return v, nil
}

// call carries one call out. It is answered before the next message is taken.
func (s *supervisor) call(r *actors.Request) {
	s.asked = r
	switch body := r.Body.(type) {
	case startChild:
		if s.flags.Strategy != SimpleOneForOne {
			r.Fail(s.refusal(body.id, ErrStrategy))
			return
		}
		child := s.children[0]
		child.ID = body.id
		s.add(&kid{child: child, arg: body.arg})
	case addChild:
		switch {
		case s.flags.Strategy == SimpleOneForOne:
			r.Fail(s.refusal(body.child.ID, ErrStrategy))
		case body.child.New == nil:
			r.Fail(s.refusal(body.child.ID, errors.New("no New")))
		default:
			s.add(&kid{child: body.child})
		}
	case terminateChild:
		s.step(decide.TerminateChild{ID: body.id})
	case restartChild:
		s.step(decide.RestartChild{ID: body.id})
	case deleteChild:
		s.step(decide.DeleteChild{ID: body.id})
	case whichChildren:
		r.Reply(s.which())
	case countChildren:
		r.Reply(s.machine.Count())
	default:
		r.Fail(fmt.Errorf("supervisor %s: unknown call %T", s.c.Self().Path(), r.Body))
	}
}

// add asks the core to add a child. The core's Forget takes a refused one out again.
func (s *supervisor) add(k *kid) {
	if !s.machine.Has(k.child.ID) {
		s.kids[k.child.ID] = k
	}
	s.step(decide.StartChild{Spec: k.child.spec()})
}

func (s *supervisor) which() []ChildInfo {
	var infos []ChildInfo
	for _, i := range s.machine.Which() {
		info := ChildInfo{ID: i.Spec.ID, State: i.State.String(), Kind: i.Spec.Kind}
		if i.Incarnation != 0 {
			info.Handle = s.kids[i.Spec.ID].handle
		}
		infos = append(infos, info)
	}
	return infos
}

// reply answers the call that is being carried out.
func (s *supervisor) reply(a decide.Reply) {
	r := s.asked
	switch a.Answer {
	case decide.OK:
		if a.Incarnation != 0 {
			r.Reply(s.kids[a.ID].handle)
		} else {
			r.Reply(nil)
		}
	case decide.OKIgnored:
		if _, restart := r.Body.(restartChild); restart {
			r.Reply(nil)
		} else {
			r.Fail(actors.ErrIgnore)
		}
	case decide.AlreadyStarted:
		r.Fail(&AlreadyStarted{ID: a.ID, Handle: s.kids[a.ID].handle})
	case decide.AlreadyPresent:
		r.Fail(s.refusal(a.ID, ErrAlreadyPresent))
	case decide.NotFound:
		r.Fail(s.refusal(a.ID, ErrNotFound))
	case decide.StillRunning:
		r.Fail(s.refusal(a.ID, ErrRunning))
	case decide.StillRestarting:
		r.Fail(s.refusal(a.ID, ErrRestarting))
	case decide.NotSimple:
		r.Fail(s.refusal(a.ID, ErrStrategy))
	case decide.StartFailed:
		r.Fail(s.startErr)
	case decide.BadSpec:
		r.Fail(s.refusal(a.ID, errors.New(a.Why)))
	case decide.Leaving:
		r.Fail(&actors.DeadError{Path: s.c.Self().Path(), Reason: actors.Reason{Kind: actors.NoProc, Detail: "stopping"}})
	}
}

func (s *supervisor) refusal(id string, err error) error {
	return fmt.Errorf("supervisor %s, child %s: %w", s.c.Self().Path(), id, err)
}
