// Package answertime decides how long the answer to a request is waited for that was sent whole.
//
// A store that works through a backlog has nothing to say for a minute. A connection that is gone
// without a word says nothing either, and what waits for its answer holds up a whole stream. So the
// time is some times the longest that answers took of late, and never short. While answers are
// waited for in vain it is twice as long each time, for all that is known too short a time; the
// first answer tells, and ends that, and with it what hangs for longer than is waited then. Where
// the store was away, that would long have been answered. Where only a connection was lost, it may
// be a request that takes long: it is given up too early, once, and the next try is given more.
//
// Requests that read and those that write have times of their own: a store that answers the ones
// at once may need a minute for the others, or for some of them. So a request that has failed is
// given more by that alone, and what ends a spell of reads ends one of writes as well, but not the
// other way round.
//
// TCP's timer of retransmission goes the same way (RFC 6298, sections 2 and 5), on a mean and a
// deviation; a store's answers have no mean worth the name, so it is the longest here.
package answertime
