// Package actors is one process: a mailbox, a synchronous init, an exit reason,
// monitors, calls, timers and supervised tasks, after Erlang/OTP's gen_server.
//
// # What a process may rely on
//
//   - Init, Handle and Terminate of one incarnation never run at the same time.
//     Everything a Context offers is meant for these three, on their goroutine;
//     only Self, System, Done and SetStatus may be used from its tasks as well.
//   - Messages of one sender arrive in the order they were sent. Nothing overtakes
//     a message except a stop without Drain, a kill and a crashed task.
//   - A crash is a panic, and equally runtime.Goexit, in New, Init, Handle, Terminate
//     or a task. It ends this process and nothing else, whatever the value it panics with
//     does when it is asked for its text: that is asked for beside the process.
//   - A message is handled at most once. One that is sent to a process that has been
//     told to stop is refused; one that is queued when it ends is dropped, and counted by
//     whom System.OnDropped names.
//
// # How a process ends
//
// By its own wish (Handle returns a reason), by a crash, by Stop, or by Kill. In this
// order, once only: the context is cancelled; Terminate runs, unless Init failed or the
// process was killed; the reason is stored (from here Alive is false); the OnExit
// functions run, latest first; every monitor gets Down and every open Request its error;
// children that are still there are killed; Done closes; the parent gets Exited, unless
// Init failed, which Start reports instead. An Init that fails after the process was told
// to stop has ended for that stop.
//
// So a name given back by OnExit is free before any supervisor can start a successor,
// and whoever saw Done close can read the reason.
//
// The context is cancelled as soon as a stop is asked for, also under Drain: what is
// drained must not need it.
//
// # What cannot be promised
//
// Go can't kill. Kill ends the incarnation for everyone else: its name is free, its
// mailbox takes nothing, its timers, requests and task results are void. Code of it that
// is blocked or ignores its context goes on: a zombie, counted by System.Zombies.
// OnGone functions run when the last such code, callbacks and tasks, has returned; a
// lease on a file or a slot is given back there and nowhere else. Whatever a zombie may
// still do to the world must be fenced by epoch or incarnation.
//
// The text of a panic's value, or of an error of Init, is waited for for 100 ms. One that
// comes later, or never, since it needs a lock that was held at the panic, does not count
// as code of the process: a lease must not be lost for it.
//
// Nor does anything recover from a fatal error of the Go runtime: a stack that outgrows
// its limit, a map that two goroutines write at once, memory that is used up.
//
// # What slowness does
//
// Send never blocks and mailboxes are unbounded: whoever can outrun a process must
// bound its own outstanding requests. A process that blocks in Handle delays its own
// messages and its own stop, and nobody else's. A Call waits as long as its context
// allows, so a process that calls another one can deadlock with it: inside a process
// use Context.Request.
//
// # Where protoactor-go ends
//
// One protoactor actor per incarnation supplies mailbox and scheduling, spawned flat
// from the root. Its restarts, children, watches, stop messages, dead letters and PIDs
// are not used: its stop path loses messages and, after a panic, whole actors.
package actors
