package segment

import "millrace/core/chunk"

const minBatch = 32

// Limit is how many records one batch may hold. It adapts as osiris's does, because
// clients rely on the chunk sizes that follow: it doubles whenever a batch fills and
// halves whenever nothing is left waiting. The zero Limit is ready.
type Limit struct {
	n int
}

// Records is the present limit.
func (l *Limit) Records() int { return max(l.n, minBatch) }

// Filled says that a batch was full and more is waiting.
func (l *Limit) Filled() { l.n = min(2*l.Records(), chunk.MaxEntries) }

// Drained says that nothing is left waiting.
func (l *Limit) Drained() { l.n = max(l.Records()/2, minBatch) }
