// Package console is the operator's page: one node as people look at it, live.
//
// GET / is an empty page, the same for everyone, with one script and one style sheet;
// it holds nothing of the node, so it needs no token. The script asks for the token
// once, keeps it for the life of the tab, and fetches the view again and again: the
// whole content as HTML, rendered here. It replaces what changed and leaves the rest
// of the page as it is, so that focus, opened parts and selections stay.
//
// Nothing comes from elsewhere: no font, no script, no image; the content security
// policy says so to the browser. Every drawing is SVG with words beside it, and every
// colour has a word.
package console
