// Package credentials is the process that keeps the keyring of the object store filled: the shell around core/renew.
//
// It fetches in a task, one at a time, and nothing in the world fails its Init: a source
// that does not answer is a state. When it ends, for whatever reason, the keyring is
// emptied, so that nothing is signed with what nobody keeps fresh; that is done before a
// successor can start, which fetches at once.
package credentials
