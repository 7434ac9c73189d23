package node

import "millrace/core/pgout"

// notStreaming tells why a capture is not streaming and what to do, "" if it is.
func notStreaming(status any) string {
	s, ok := status.(pgout.Status)
	switch {
	case !ok:
		return "is starting"
	case s.Waiting != nil && s.State != "streaming" && s.Waiting.Hint != "":
		return s.State + ": " + s.Waiting.Why + "; " + s.Waiting.Hint
	case s.Waiting != nil && s.State != "streaming":
		return s.State + ": " + s.Waiting.Why
	case s.State != "streaming":
		return s.State
	}
	return ""
}
