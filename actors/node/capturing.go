package node

import "millrace/core/pgout"

// captureReason tells why a capture is not streaming, "" if it is.
func captureReason(status any) string {
	s, ok := status.(pgout.Status)
	switch {
	case !ok:
		return "is starting"
	case s.Waiting != nil && s.State != "streaming":
		return s.State + ": " + s.Waiting.Why
	case s.State != "streaming":
		return s.State
	}
	return ""
}
