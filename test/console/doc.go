// Package consoletest looks at the console in a real browser: what it shows, that it keeps up with a node that lives, that nothing on it is out of reach, and how it looks.
//
// The browser is Debian's Chromium, driven over the pipe of its DevTools protocol: two
// file descriptors and JSON, so that neither a driver nor a port is needed. The node is
// the real program, built with two bugs planted by the go command's -overlay: the
// replica reader of a stream named crashes-for-ever panics, and the object store
// refuses to store while a certain file exists.
//
// Screenshots are written to bin/console, for people to look at.
package consoletest
