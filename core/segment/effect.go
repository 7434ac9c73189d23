package segment

import "millrace/core/pos"

// Effect is what the shell must do. Effects are lent: they are valid until the next
// Step. All but Open and Sync are done before the next Step.
//
//sumtype:decl
type Effect interface{ effect() }

// Open starts the log: lease, epoch, recovery. Answer: Found, or Failed OpOpen.
type Open struct{}

// Roll closes the pair Old and makes the pair New: sync both files of Old (failure:
// OpRollSync), create both of New with their headers and sync them (OpRoll), sync
// the folder (OpRollSync). Files of New that are left of a failed attempt are
// overwritten. It stands before the Write that needs it.
type Roll struct {
	Old pos.Offset // NoOffset: there is none
	New pos.Offset
}

// Write writes the chunk to the segment, then Index to the index. Failure: OpWrite.
type Write struct {
	Segment  pos.Offset
	Position int64 // of the chunk in the segment file
	IndexAt  int64 // of the record in the index file
	Index    IndexRecord
}

// Sync syncs the segment file; the index is not synced. All Writes before it have
// been done. Answer: Done, or Failed OpSync. Only one is under way at a time.
type Sync struct {
	Segment pos.Offset
	Done    Synced
}

// Publish is what others may see from now on. It stands before any Remove: First
// moves before files go.
type Publish struct {
	View
	Segments []pos.Offset // the first offset of each segment, oldest first; nil = unchanged
}

// Truncate cuts both files of a segment. Failure: OpTruncate. It also drops pages that
// the operating system failed to write, so that no recovery takes them for synced.
type Truncate struct {
	Segment pos.Offset
	Bytes   int64
	Index   int64  // bytes
	End     string // not empty: end the writer with this reason afterwards, whether or not the cut worked
}

// Remove deletes the segment file, then the index file; a file that is not there is
// no failure. Failure: OpRemove.
type Remove struct {
	Segment pos.Offset
}

func (*Open) effect()     {}
func (*Roll) effect()     {}
func (*Write) effect()    {}
func (*Sync) effect()     {}
func (*Publish) effect()  {}
func (*Truncate) effect() {}
func (*Remove) effect()   {}

// View is what others see of a log.
type View struct {
	First     pos.Offset // Committed if the log is empty
	Committed pos.Offset
	Synced    pos.Offset // synced and committed
	Last      pos.Offset
	LastChunk pos.Offset // id of the last committed chunk; NoOffset if there is none
	Bytes     int64      // of all segment files
}

// effects are the machine's own, lent to the shell.
type effects struct {
	open     Open
	roll     Roll
	write    Write
	sync     Sync
	publish  Publish
	truncate Truncate
	removes  []Remove
}

// remove appends a Remove for each segment.
func (fx *effects) remove(firsts []pos.Offset, out []Effect) []Effect {
	fx.removes = fx.removes[:0]
	for _, first := range firsts {
		fx.removes = append(fx.removes, Remove{Segment: first})
	}
	for i := range fx.removes {
		out = append(out, &fx.removes[i])
	}
	return out
}
