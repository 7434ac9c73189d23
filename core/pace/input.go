package pace

import "millrace/core/pos"

// Input is what a Machine is told.
//
//sumtype:decl
type Input interface{ input() }

// Inputs.
type (
	// Ask is a Submit that arrived.
	Ask struct {
		Now    pos.Millis
		Submit Submit
		Dead   bool // the owner is gone already
	}
	// End is a Done that arrived.
	End struct {
		Now  pos.Millis
		Done Done
	}
	// Withdraw is a Cancel that arrived.
	Withdraw struct {
		Now    pos.Millis
		Cancel Cancel
	}
	// OwnerDown says that an owner died: what it asked for is dropped, what it was
	// granted is given back.
	OwnerDown struct {
		Now   pos.Millis
		Owner Owner
	}
	// Tick says what time it is, at the latest when Wake asked for it.
	Tick struct{ Now pos.Millis }
)

func (Ask) input()       {}
func (End) input()       {}
func (Withdraw) input()  {}
func (OwnerDown) input() {}
func (Tick) input()      {}

// Effect is what must be done.
//
//sumtype:decl
type Effect interface{ effect() }

// Effects.
type (
	// Grant tells the owner that a transfer may start.
	Grant struct {
		Owner Owner
		Ref   Ref
	}
	// Wake asks for a Tick at a time. It replaces the Wake before it.
	Wake struct{ At pos.Millis }
)

func (Grant) effect() {}
func (Wake) effect()  {}
