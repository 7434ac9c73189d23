// Package plant breaks a rule of the code on purpose and demands that the simulation notices.
//
// A simulation that finds nothing proves nothing until it was seen to find
// something. Each plant names one rule and the line that holds it; the line is
// replaced in a copy (the go command's -overlay, so no source file changes and no
// production code knows of this), and test/sim is run on it. A run that passes is
// the failure here.
package plant
