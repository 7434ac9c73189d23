// Package keep decides what should run on this node and doesn't, and when to
// start it again.
//
// A supervisor that used up its restart budget parks what it supervised: one
// stream's writer, one capture, the whole tiering tree. Nothing above starts it
// again, since that would turn the budget into an endless loop. The keeper does,
// on a clock of its own: at once when a thing is first seen missing, then after a
// back-off that doubles each time the start did not last. What an operator stopped did
// not fail, and is as new.
package keep
