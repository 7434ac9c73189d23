// Package admin is the operator's surface of a node: the process that keeps the HTTP
// server up, and what that server asks of the node.
//
// The process is the node's first child up and its last down, so that /livez and
// /readyz answer while everything else starts and stops. It knows no HTTP: it runs
// the Server it is given as a task. A server that can't run, because its port is
// taken or its token can't be written, is a state with a back-off, shown in the
// status, and never a crash.
//
// Node is implemented by actors/node. Its answers come from what processes published
// last, so none of its methods waits on a busy process except where it takes a
// context.
package admin
