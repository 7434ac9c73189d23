package port

import "context"

type triesKey struct{}

// WithTries returns a context for an operation that has failed so many times before: a store may
// give it more time.
func WithTries(ctx context.Context, tries int) context.Context {
	return context.WithValue(ctx, triesKey{}, tries)
}

// Tries returns how often an operation has failed before, as far as its context tells.
func Tries(ctx context.Context) int {
	tries, _ := ctx.Value(triesKey{}).(int)
	return tries
}
