// Package backoff is how long is waited before the next try: twice as long after each
// failure in a row, up to a limit.
package backoff
