package backoff

import "time"

// Doubling is the pause after the first failure, and the longest one.
type Doubling struct{ First, Last time.Duration }

// After returns the pause after so many failures in a row, the first of which counts as 1.
func (d Doubling) After(failures int) time.Duration {
	pause := d.First
	for ; failures > 1 && pause < d.Last; failures-- {
		pause *= 2
	}
	return min(pause, d.Last)
}

// Jittered returns a pause between half of After's and all of it ("equal jitter"), picked by
// a random number: what failed at one moment is not tried again at one moment.
func (d Doubling) Jittered(failures int, random uint64) time.Duration {
	pause := d.After(failures)
	half := pause / 2
	return half + time.Duration(random%uint64(pause-half+1))
}
