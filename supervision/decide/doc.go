// Package decide is what a supervisor decides, after Erlang/OTP's supervisor: given what
// happened to its children, which of them to start and stop, in which order, and when to
// give up. It is pure: the shell in package supervision does what it says.
//
// # How to drive it
//
// New, then Step(Boot), and from then on one event at a time. Step appends the actions
// that are now due, to be executed in order. Start, Stop and StopAll await an answer, and
// are always the last action of a Step: Start is answered by one of Started, Ignored,
// Failed and Cancelled, Stop by one Stopped, StopAll by one Stopped for each child it
// names. No other event may be given before, except ShutdownAll by a shell that has failed.
// Step panics when this is broken.
//
// After Exit the supervisor has given up: the shell ends itself, and as the last event
// gives ShutdownAll, which stops every child that is left. ShutdownAll also is what the
// shell gives when it is told to stop. A stop that comes while children are being started
// is seen at the next start, which is answered with Cancelled: no further child is started,
// and those that run are stopped by ShutdownAll like at any stop.
//
// # The rules
//
//  1. Children start in the order of their list. When one fails, those before it are
//     stopped in reverse and the supervisor has failed to start.
//  2. A permanent child is restarted whatever it ended for, a transient one when it ended
//     abnormally, a temporary one never: its specification goes with it. A transient child
//     that ended normally keeps its specification and has no process.
//  3. Every attempt to restart costs one unit of the supervisor's own budget: more than
//     Intensity of them within Period, and it exits. A restart whose init fails is tried
//     again, after whatever else is waiting, and costs again. What is not a restart is free.
//  4. AnySignificant: the supervisor exits when a significant child has ended by itself and
//     is not restarted; AllSignificant: when it was the last one that had a process.
//     TerminateChild and an ignored start never count. Significant needs AutoShutdown, and
//     is refused on a permanent child.
//  5. Ignored: a permanent or transient child keeps its specification without a process;
//     a temporary one, and any under SimpleOneForOne, is dropped.
//  6. Children stop in the reverse order of the list, one after the other, whatever was
//     restarted since. Under SimpleOneForOne all stop at the same time.
//  7. RestForOne and OneForAll stop the children concerned in reverse and start them in
//     order, also those that had no process; temporary ones are not started again.
//  8. A child supervisor that gave up, and is not restarted for it, is reported as parked: OTP
//     has no word for that. Whoever wants it back starts it anew.
//  9. The window of the budget is counted in milliseconds and includes both ends. OTP counts
//     in whole seconds, so it also takes some crashes for simultaneous that are up to a
//     second further apart; that is not copied.
package decide
