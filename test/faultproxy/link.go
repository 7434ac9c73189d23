package faultproxy

import (
	"net"
	"sync"
	"time"
)

// link is one client's connection and ours to the target.
type link struct {
	proxy  *Proxy
	own    *Faults // nil: the proxy's
	client *net.TCPConn
	done   chan struct{}
	once   sync.Once

	mu     sync.Mutex
	server *net.TCPConn // nil until dialled
	fell   bool         // into the black hole
	turn   int          // whose bytes passed last
}

// The two ways.
const (
	request = 1 + iota
	answer
)

// run carries bytes until one side ends.
func (k *link) run() {
	defer k.end(false)
	f := k.proxy.current(k)
	if f.Reset && f.CutRequest == 0 && f.CutAnswer == 0 {
		k.end(true)
		return
	}
	if !f.BlackHole {
		if !k.dial() {
			return
		}
		k.proxy.wg.Go(func() { k.carry(k.client, k.server, answer) })
	}
	k.carry(k.server, k.client, request)
}

func (k *link) dial() bool {
	c, err := net.Dial("tcp", k.proxy.target)
	if err != nil {
		return false
	}
	k.mu.Lock()
	k.server = c.(*net.TCPConn)
	k.mu.Unlock()
	select {
	case <-k.done:
		return c.Close() != nil // nobody is there any more
	default:
		return true
	}
}

// carry copies from one side to the other. To nowhere it only reads.
func (k *link) carry(to, from *net.TCPConn, way int) {
	defer k.end(false)
	b := make([]byte, 16<<10)
	var passed int64
	for {
		n, err := from.Read(b)
		f := k.proxy.current(k)
		if k.swallows(f) || to == nil {
			if err != nil {
				return
			}
			continue
		}
		cut := f.CutRequest
		if way == answer {
			cut = f.CutAnswer
		}
		if cut > 0 && passed+int64(n) >= cut {
			n = int(max(0, cut-passed))
			k.write(to, b[:n], f, way)
			k.end(f.Reset)
			return
		}
		if n > 0 && !k.write(to, b[:n], f, way) {
			return
		}
		passed += int64(n)
		if err != nil {
			return
		}
	}
}

// swallows reports whether nothing passes any more.
func (k *link) swallows(f Faults) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fell = k.fell || f.BlackHole
	return k.fell
}

// write passes bytes on, late and slowly as f says.
func (k *link) write(to *net.TCPConn, b []byte, f Faults, way int) bool {
	wait := time.Duration(0)
	k.mu.Lock()
	if k.turn != way {
		k.turn = way
		wait = f.Delay
	}
	k.mu.Unlock()
	if f.Rate > 0 {
		wait += time.Duration(int64(len(b)) * int64(time.Second) / f.Rate)
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-k.done:
			return false
		}
	}
	_, err := to.Write(b)
	return err == nil
}

// changed applies at once what does not wait for the next bytes.
func (k *link) changed() {
	f := k.proxy.current(k)
	if f.Reset && f.CutRequest == 0 && f.CutAnswer == 0 {
		k.end(true)
	}
}

// end closes both sides, with RST if asked.
func (k *link) end(reset bool) {
	k.once.Do(func() {
		close(k.done)
		k.proxy.forget(k)
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, c := range []*net.TCPConn{k.client, k.server} {
			if c == nil {
				continue
			}
			// A side that is closed already refuses both, and needs neither.
			if reset && c.SetLinger(0) != nil {
				continue
			}
			if c.Close() != nil {
				continue
			}
		}
	})
}
