package replicareader

import (
	"sort"

	"millrace/core/pos"
	"millrace/core/segment"
)

// epochsOf returns which epochs wrote the records [from, to), by asking at for single
// offsets. Epochs rise along a log, so the end of each is found by halving: it asks
// once where there is one epoch, and some 30 times for each further one.
func epochsOf(at func(pos.Offset) (pos.Epoch, error), from, to pos.Offset) ([]segment.EpochEnd, error) {
	var epochs []segment.EpochEnd
	for from < to {
		e, err := at(from)
		if err != nil {
			return nil, err
		}
		last, err := at(to - 1)
		if err != nil {
			return nil, err
		}
		end := to
		if last != e {
			n := sort.Search(int(to-from), func(i int) bool {
				x, failed := at(from + pos.Offset(i))
				if failed != nil {
					err = failed
				}
				return x != e
			})
			end = from + pos.Offset(n)
		}
		if err != nil {
			return nil, err
		}
		epochs = append(epochs, segment.EpochEnd{Epoch: e, End: end})
		from = end
	}
	return epochs, nil
}
