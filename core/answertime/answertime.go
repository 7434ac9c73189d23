package answertime

import "time"

const (
	// Least is what an answer is given at least, beside its Allowance.
	Least = 15 * time.Second
	// Most is what it is given at most.
	Most = time.Minute

	factor = 4 // of the longest time of late
	fading = 4 // with each answer one part in so many of it is forgotten
	// rate is at how many bytes a second a store is taken to make things durable, at least.
	rate = 4 << 20
	// line is at how many bytes a second it is taken to send them, at least.
	line = 1 << 20
)

// Answers is what is known of a store's answers, of those to what reads and to what writes. The
// zero value knows nothing.
type Answers struct{ reads, writes times }

// Bound returns how long an answer is waited for, from Least to Most. What writes is given no less
// than what reads.
func (a *Answers) Bound(write bool) time.Duration {
	if write {
		return max(a.reads.bound(), a.writes.bound())
	}
	return a.reads.bound()
}

// Answered learns that an answer began after a time. It reports whether the store is taken to be
// back: a read ended a spell of reads. It may have been one connection that was lost, and not the
// store. A write says less, since one may take long, and another one not.
func (a *Answers) Answered(write bool, after time.Duration) bool {
	if write {
		a.writes.answered(after)
		return false
	}
	back := a.reads.answered(after)
	if back {
		a.writes.back()
	}
	return back
}

// Lost learns that an answer was waited for in vain.
func (a *Answers) Lost(write bool, after time.Duration) {
	if write {
		a.writes.lost(after)
	} else {
		a.reads.lost(after)
	}
}

// times is what is known of how long answers to one sort of requests take. The zero value knows
// nothing.
type times struct {
	slow  time.Duration // the longest of late
	spell time.Duration // what answers are given that do not come; 0: the last one did
}

// bound returns how long an answer is waited for, from Least to Most.
func (t *times) bound() time.Duration {
	return min(max(Least, factor*t.slow, t.spell), Most)
}

// answered learns that an answer began after a time. It reports whether that ended a spell of
// answers that did not come.
func (t *times) answered(after time.Duration) bool {
	ended := t.spell > 0
	t.slow, t.spell = min(max(after, t.slow-t.slow/fading), Most), 0
	return ended
}

// back learns from other requests that the store was away and is back.
func (t *times) back() { t.spell = 0 }

// lost learns that an answer was waited for in vain.
func (t *times) lost(after time.Duration) {
	t.spell = min(max(2*after, t.spell), Most)
}

// After returns what the answer to one request is given at least that has failed so many times:
// whatever else is answered meanwhile, this one may be one that takes long.
func After(tries int) time.Duration { return min(Least<<min(max(0, tries), 2), Most) }

// Allowance returns what an answer is given on top for what the store was sent and must make
// durable before it answers, in whole seconds. A size below 0 is not known, and allows nothing.
func Allowance(bytes int64) time.Duration {
	return time.Duration(max(0, bytes)/rate) * time.Second
}

// Whole returns what a request is given from its beginning to its end that has so many bytes, of
// its own or in its answer: the waiting for the answer is bounded by whoever knows what others took,
// and this must not end it sooner.
func Whole(bytes int64) time.Duration {
	return Most + time.Duration((max(0, bytes)+line-1)/line)*time.Second
}
