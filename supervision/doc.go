// Package supervision starts, stops and restarts processes after Erlang/OTP's supervisor.
// It knows nothing of what they do. What it decides is decided in package decide, whose
// package comment states the rules; this package carries it out with real processes.
//
// # Concurrency
//
//   - A supervisor is a process. It starts, stops and restarts its children one after the
//     other, on its own goroutine: while a child's init or stop takes its time, this
//     supervisor takes no messages and answers no call. Nobody else waits.
//   - A stop of the supervisor that arrives while a child's init runs cancels that init's
//     context at once. The init then has the child's own shutdown time to return. No
//     further child is started, in no other case either: what runs by then is stopped in
//     reverse as at any stop, the supervisor ends for the stop's reason, and what was not
//     begun or was cut short is no error. Erlang's would start the rest of its list first.
//   - A supervisor that fails in its own code ends with a crash, after it has stopped its
//     children like that, whatever it was doing.
//   - A child's name and its OnExit effects are gone before the supervisor acts on its end,
//     so a restarted child finds its name free.
//   - A child that outlives its shutdown time is killed, which in Go means abandoned: its
//     successor may start while its code still runs. It is listed as a zombie until that
//     has returned. A child that owns a file or a slot gets Infinity, and takes a lease in
//     its init that it gives back in OnGone.
//   - When a supervisor is itself killed, all below it is killed with it.
//   - The functions that ask a supervisor wait for it as long as their context allows.
//     They must not be called from inside a process's callbacks.
//   - Tree reads what every supervisor last published. It never waits for one.
//   - The observe function is called for each event on a goroutine of its own, from several
//     supervisors at once if it is given to several. A panic or runtime.Goexit in it ends
//     that call and nothing else. The supervisor waits for it, so that what it does is done
//     before anything follows from the event, but for 100 ms at most. One that takes longer
//     delays the supervisor by that much at each event and is called for the next while it
//     still is in the one before: it may see them out of order, and if it never returns it
//     keeps a goroutine for each. It must not ask a supervisor.
package supervision
