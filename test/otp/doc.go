// Package otp proves that our supervisor is Erlang's: it runs the same programs on OTP's own,
// through driver.erl, and on package supervision's, and compares what can be seen.
//
// # Programs
//
// A program declares a supervisor and what stands below it, starts it and does things to it.
// One command is one line; a path is ids joined by "/".
//
//	sup FLAGS                      the supervisor at the top, the first line
//	child PATH WORDS               a child below it, or below another child with FLAGS
//	boot                           starts the top
//	exit PATH REASON               the child ends: normal, shutdown, {shutdown,x}, crash or kill
//	add PATH WORDS                 start_child
//	terminate|restart|delete PATH  the call of that name
//	hold PATH init|stop            the child's next init, or stop, waits
//	open VERDICT                   the held child goes on; an init comes to that verdict
//	pass MS                        time passes
//	stop                           the top's parent stops it
//
// FLAGS are strategy=, and where they are not OTP's defaults intensity=, period= (seconds; 1000000
// unless given, so that all falls into one) and auto=. A child with FLAGS is a supervisor. WORDS are
// restart=, shutdown= (60000 ms unless given, or infinity, or brutal), significant; and of workers
// init=, the outcomes of their starts, the last of which goes on for ever (ok, ignore, error, crash),
// trap (traps exits, so that its stops are seen), and linger (does not stop before it is killed). Below
// simple_one_for_one the one child declared is the template; add names an instance, and may give init=.
//
// # Answers
//
//	ANSWER | STATE | EVENTS
//
// STATE is "alive" and the tree, as which_children and count_children tell it: the latest child
// first, "a" has a process and "a:undefined" has none, and the four counts. Or "down" and the exit
// reason. EVENTS since the answer before, in order: "start", also of those whose init then failed;
// "stopping" and "stopped" of workers that trap exits; and the reports "terminated", "fault" (in a
// stop) and "limit". Below simple_one_for_one, where stops are parallel, order is kept for each
// instance only, and behind open for each supervisor only. An answer is given when everything that follows from the command has happened.
//
// While a child is held, its supervisor waits for it. Then a command for the same supervisor is
// "posted", to be found in its mailbox later, and an exit happens at once; open answers all of them.
//
// # What is compared, and what is not
//
// Everything above. Where we differ on purpose, no program is made:
//
//   - The window of the budget counts milliseconds, OTP's whole seconds: no crashes lie between
//     period and period + 1 s apart.
//   - A stop of a supervisor that is starting a child cancels that init; OTP waits for it.
//   - A kill of a supervisor kills all below it; OTP's orphans that trap exits may still clean up.
//   - Under simple_one_for_one children have names, and an ignored restart leaves nothing. OTP 25
//     keeps a child without a process that no call can name, and then crashes when it is stopped.
//   - StartChild there refuses a name that is taken; OTP's children have none.
package otp
