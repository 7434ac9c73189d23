// Package fakekeyring is a port.Keyring in memory, with the source of its credentials and the far side that checks them.
//
// The source hands out keys that are numbered: "key-1", "key-2", ... Each lives as long as
// Life says. The far side takes every key that was handed out and has not expired, and
// forgets those that Revoke names.
package fakekeyring
