package replicareader

import (
	"time"

	"millrace/actors/port"
)

// tellBytes and tellEvery are what is sent and what passes, at least, until it is told again that an
// upload moves. A store that takes a byte now and then keeps nobody waiting for ever by that.
const (
	tellBytes = 64 << 10
	tellEvery = 10 * time.Second
)

// progress is an object's body that tells when more of it was read, by whoever sends it.
type progress struct {
	port.Body
	tell  func()
	bytes int64 // since it was told
	at    time.Time
}

func newProgress(b port.Body, tell func()) *progress {
	return &progress{Body: b, tell: tell, at: time.Now()}
}

// Read implements io.Reader.
func (p *progress) Read(to []byte) (int, error) {
	n, err := p.Body.Read(to)
	if p.bytes += int64(n); p.bytes >= tellBytes && time.Since(p.at) >= tellEvery {
		p.bytes, p.at = 0, time.Now()
		p.tell()
	}
	return n, err
}
