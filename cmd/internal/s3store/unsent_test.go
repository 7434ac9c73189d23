package s3store

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// A store that takes nothing is noticed soon: the system takes no more of a body than it can send,
// but for a little. It takes megabytes otherwise, which a slow line needs longer for than a
// connection may stand still.
func TestTheSystemTakesLittleThatItCanNotSend(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	p := newPool(1, nil, new(patience))
	p.Open()
	defer p.Close()
	near, err := p.transport.DialContext(t.Context(), "tcp", l.Addr().String())
	must(t, err)
	far, err := l.Accept()
	must(t, err)
	must(t, far.(*net.TCPConn).SetReadBuffer(64<<10))

	const all = 16 << 20
	var taken atomic.Int64
	done := make(chan error, 1)
	go func() {
		piece := make([]byte, 16<<10)
		for taken.Load() < all {
			n, err := near.Write(piece)
			if taken.Add(int64(n)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	read, ahead := int64(0), int64(0)
	buf := make([]byte, 16<<10)
	for read < all {
		n, err := io.ReadFull(far, buf)
		must(t, err)
		read += int64(n)
		ahead = max(ahead, taken.Load()-read)
	}
	must(t, <-done)
	if ahead > 2<<20 {
		t.Errorf("%d KiB were taken and not received", ahead>>10)
	}
}
