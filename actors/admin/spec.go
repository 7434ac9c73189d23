package admin

import "millrace/core/resolve"

// ReadSpec says what to read.
type ReadSpec struct {
	From   resolve.Spec
	Follow bool // wait for more at the tail instead of ending there
}
