// Package keyringtest checks what port.Keyring promises.
package keyringtest
