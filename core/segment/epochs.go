package segment

import "millrace/core/pos"

// Epochs lists the epochs of a segment by its index: n records, read with at, of which
// the last chunk ends at next. ok is false if the index contradicts itself or at fails.
// Where a segment has one epoch, two records are read.
func Epochs(n int64, next pos.Offset, at func(i int64) (IndexRecord, bool)) (ends []EpochEnd, ok bool) {
	if n <= 0 {
		return nil, true
	}
	last, ok := at(n - 1)
	if !ok {
		return nil, false
	}
	for i := int64(0); ; {
		r, ok := at(i)
		if !ok || r.Epoch > last.Epoch {
			return nil, false
		}
		if r.Epoch == last.Epoch {
			return append(ends, EpochEnd{Epoch: r.Epoch, End: next}), last.ID < next
		}
		// The first record of a later epoch: it exists, since the last one is such.
		lo, hi := i+1, n-1
		for lo < hi {
			mid := (lo + hi) / 2
			m, ok := at(mid)
			if !ok {
				return nil, false
			}
			if m.Epoch > r.Epoch {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		end, ok := at(lo)
		if !ok || end.ID <= r.ID {
			return nil, false
		}
		ends = append(ends, EpochEnd{Epoch: r.Epoch, End: end.ID})
		i = lo
	}
}

// JoinEpochs puts the epochs of a segment before those of what follows it. ok is false if
// the epochs would fall.
func JoinEpochs(older, newer []EpochEnd) (ends []EpochEnd, ok bool) {
	if len(older) == 0 || len(newer) == 0 {
		return append(append(ends, older...), newer...), true
	}
	last, next := older[len(older)-1], newer[0]
	if last.Epoch > next.Epoch {
		return nil, false
	}
	if last.Epoch == next.Epoch {
		older = older[:len(older)-1]
	}
	return append(append(ends, older...), newer...), true
}
