package renew

import "millrace/core/pos"

// Input is what a Machine is told.
//
//sumtype:decl
type Input interface{ input() }

// Inputs. Random is any number, for jitter.
type (
	// Start is the first input.
	Start struct{ Now pos.Millis }
	// Fetched ends the fetch under way.
	Fetched struct {
		Now         pos.Millis
		Random      uint64
		Source      string // in words
		AccessKeyID string
		Expires     pos.Millis // 0: never
	}
	// Failed ends the fetch under way without credentials.
	Failed struct {
		Now    pos.Millis
		Random uint64
		Why    string
	}
	// Rejected says that the store refused what is in use as expired or unknown.
	Rejected struct{ Now pos.Millis }
	// Tick says what time it is, at the latest when Wake asked for it.
	Tick struct{ Now pos.Millis }
)

func (Start) input()    {}
func (Fetched) input()  {}
func (Failed) input()   {}
func (Rejected) input() {}
func (Tick) input()     {}

// Effect is what must be done.
//
//sumtype:decl
type Effect interface{ effect() }

// Effects.
type (
	// Fetch asks the sources. Fetched or Failed follows; until then there is no other.
	Fetch struct{}
	// Use signs with what the last Fetched told of, from now on.
	Use struct{}
	// Drop takes away what is in use: it has expired.
	Drop struct{ Why string }
	// Wake asks for a Tick at a time. It replaces the Wake before it.
	Wake struct{ At pos.Millis }
	// Note is for the log. There is one where something changes, none for each try.
	Note struct {
		Kind NoteKind
		Why  string
	}
)

func (Fetch) effect() {}
func (Use) effect()   {}
func (Drop) effect()  {}
func (Wake) effect()  {}
func (Note) effect()  {}

// NoteKind says what a Note is about.
type NoteKind uint8

// The kinds.
const (
	Obtained NoteKind = iota // the first ones, or others than before
	Failing                  // a fetch failed, the one before did not
	Lost                     // what was in use has expired
	Refused                  // the store refuses what is in use
)
