package pace

import "millrace/core/pos"

// Owner is one incarnation of a replica reader. Grants go to the process that is
// registered for the stream, if it is still this incarnation.
type Owner struct {
	Stream      pos.StreamID
	Incarnation uint64
}

// Ref names one attempt at a transfer among those of its owner, who never uses it
// again for another.
type Ref uint64

// Submit asks the governor for a transfer of Bytes, the size of the whole object.
type Submit struct {
	Owner Owner
	Ref   Ref
	Bytes int64
}

// Granted is the governor's answer to the owner: the transfer may start.
type Granted struct{ Ref Ref }

// Done gives a grant back: the transfer ended, well or not. One that is not known
// is ignored, so that it may be sent to a governor that restarted meanwhile.
type Done struct {
	Owner Owner
	Ref   Ref
}

// Cancel takes back what was submitted, whether it still waits or was granted.
type Cancel struct {
	Owner Owner
	Refs  []Ref
}
