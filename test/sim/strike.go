package sim

import (
	"errors"
	"math/rand/v2"
	"sync"

	"millrace/actors/port"
)

// errDead is what every port answers to a node that was killed.
var errDead = errors.New("the node was killed")

// strike stands between one life of the node and all of its ports. It counts the
// effects, kills the node at one of them, and before that lets some fail.
type strike struct {
	mu      sync.Mutex
	rng     *rand.Rand
	left    int    // effects until the node dies; negative: it lives on
	fatal   string // the node also dies at this effect, when it comes for the nth time
	nth     int
	dead    bool
	died    chan struct{}
	kill    func() // runs at the fatal effect, before anyone sees the death
	effects map[string]int
	faults  bool
}

func newStrike(seed uint64, left int, faults bool, kill func()) *strike {
	return &strike{
		rng: rand.New(rand.NewPCG(seed, uint64(left)+1)), left: left, kill: kill, faults: faults,
		died: make(chan struct{}), effects: map[string]int{},
	}
}

// turningPoints are effects that come seldom and must stand in a certain order with
// others. A crash at a random effect would seldom meet them.
var turningPoints = []string{
	"postgres.create slot done", "postgres.drop slot done", "meta.swapcapture done", "meta.createstream done",
	"meta.swapstreams done", "meta.putanchor done", "meta.swappointer", "meta.swappointer done", "store.put done",
	"state.putreplica done", "disk.create done", "disk.syncdir", "disk.syncdir done", "disk.remove done", "disk.truncate done",
}

// aim makes one of the turning points fatal.
func (s *strike) aim() {
	s.fatal, s.nth, s.left = turningPoints[s.rng.IntN(len(turningPoints))], 1+s.rng.IntN(3), -1
}

// stop lets no effect through any more, as if the node had been killed now.
func (s *strike) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.die()
}

func (s *strike) die() {
	if s.dead {
		return
	}
	s.dead = true
	s.kill()
	close(s.died)
}

// hit is one moment at which the node may die: before an effect, or after it.
func (s *strike) hit(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return errDead
	}
	s.effects[name]++
	if s.left == 0 || name == s.fatal && s.effects[name] == s.nth {
		s.die()
		return errDead
	}
	if s.left > 0 {
		s.left--
	}
	return nil
}

// before and after make the hooks of one port. A fault is drawn for each of the
// chances; the outcome of an operation that took effect is lost as often.
func (s *strike) before(portName string, rate float64, classes ...port.Class) func(op, what string) error {
	return func(op, _ string) error {
		if err := s.hit(portName + "." + op); err != nil {
			return err
		}
		return s.fault(rate, classes)
	}
}

func (s *strike) after(portName string, rate float64, classes ...port.Class) func(op, what string) error {
	return func(op, _ string) error {
		if err := s.hit(portName + "." + op + " done"); err != nil {
			return err
		}
		return s.fault(rate, classes)
	}
}

func (s *strike) fault(rate float64, classes []port.Class) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.faults || len(classes) == 0 || s.rng.Float64() >= rate {
		return nil
	}
	return classes[s.rng.IntN(len(classes))]
}
