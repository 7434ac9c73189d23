package registry

import (
	"cmp"
	"slices"
	"sync"

	"millrace/actors"
)

// Name names a process: what it is, whose it is, and on which node it runs.
type Name struct{ Kind, ID, Node string }

// String returns kind, id and node joined by slashes, for logs.
func (n Name) String() string { return n.Kind + "/" + n.ID + "/" + n.Node }

// Registered tells a subscriber that Handle holds Name.
type Registered struct {
	Name   Name
	Handle *actors.Handle
}

// Unregistered tells a subscriber that nobody holds Name.
type Unregistered struct{ Name Name }

// Registry is the table of this node's names. Get one from New; a nil one is empty.
type Registry struct {
	mu          sync.RWMutex
	holders     map[Name]*actors.Handle
	subscribers map[Name]map[*actors.Handle]struct{}
}

// New returns an empty registry.
func New() *Registry {
	return &Registry{holders: map[Name]*actors.Handle{}, subscribers: map[Name]map[*actors.Handle]struct{}{}}
}

// Register gives the name to the calling process until that ends. It returns false when
// another live process holds it, when the caller has itself been killed, and on a nil
// registry. Call it inside Init. Registering what one holds already changes nothing.
func (r *Registry) Register(c *actors.Context, n Name) bool {
	if r == nil {
		return false
	}
	self := c.Self()
	// Before the name is taken: whenever the process ends, either take finds it dead or
	// this finds the name taken.
	c.OnExit(func() { r.giveBack(n, self) })
	r.mu.Lock()
	defer r.mu.Unlock()
	holder := r.holders[n]
	switch {
	case !self.Alive():
		return false
	case holder == self:
		return true
	case holder.Alive():
		return false
	}
	r.holders[n] = self
	r.tell(n, Registered{Name: n, Handle: self})
	return true
}

func (r *Registry) giveBack(n Name, h *actors.Handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holders[n] == h {
		delete(r.holders, n)
		r.tell(n, Unregistered{Name: n})
	}
}

// tell sends under the lock, which keeps the order; Send never blocks.
func (r *Registry) tell(n Name, msg any) {
	for h := range r.subscribers[n] {
		h.Send(msg)
	}
}

// WhereIs returns the live process that holds the name.
func (r *Registry) WhereIs(n Name) (*actors.Handle, bool) {
	if r == nil {
		return nil, false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	h := r.holders[n]
	if !h.Alive() {
		return nil, false
	}
	return h, true
}

// Send sends to whoever holds the name; false when nobody does or it is stopping.
func (r *Registry) Send(n Name, msg any) bool {
	h, ok := r.WhereIs(n)
	return ok && h.Send(msg)
}

// Subscribe sends the calling process Registered or Unregistered, now for the present
// state and then for every change, until it ends. Subscribing twice counts once.
func (r *Registry) Subscribe(c *actors.Context, n Name) {
	self := c.Self()
	if r == nil {
		self.Send(Unregistered{Name: n})
		return
	}
	c.OnExit(func() { r.unsubscribe(n, self) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if !self.Alive() {
		return
	}
	if r.subscribers[n] == nil {
		r.subscribers[n] = map[*actors.Handle]struct{}{}
	}
	r.subscribers[n][self] = struct{}{}
	if h := r.holders[n]; h.Alive() {
		self.Send(Registered{Name: n, Handle: h})
	} else {
		self.Send(Unregistered{Name: n})
	}
}

func (r *Registry) unsubscribe(n Name, h *actors.Handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.subscribers[n], h)
	if len(r.subscribers[n]) == 0 {
		delete(r.subscribers, n)
	}
}

// Names returns the names of one kind that live processes hold, in order of id and node.
func (r *Registry) Names(kind string) []Name {
	if r == nil {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	var names []Name
	for n, h := range r.holders {
		if n.Kind == kind && h.Alive() {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b Name) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Node, b.Node)) })
	return names
}

// Held is a name and the live process that holds it.
type Held struct {
	Name   Name
	Handle *actors.Handle
}

// All returns every name that a live process holds, in order of kind, id and node.
func (r *Registry) All() []Held {
	if r == nil {
		return nil
	}
	r.mu.RLock()
	all := make([]Held, 0, len(r.holders))
	for n, h := range r.holders {
		if h.Alive() {
			all = append(all, Held{Name: n, Handle: h})
		}
	}
	r.mu.RUnlock()
	slices.SortFunc(all, func(a, b Held) int {
		return cmp.Or(cmp.Compare(a.Name.Kind, b.Name.Kind), cmp.Compare(a.Name.ID, b.Name.ID), cmp.Compare(a.Name.Node, b.Name.Node))
	})
	return all
}
