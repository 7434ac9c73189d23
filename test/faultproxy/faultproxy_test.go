package faultproxy

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts a proxy before a server that sends back what it gets.
func start(t *testing.T) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				if _, err := io.Copy(c, c); err == nil {
					c.Close()
				}
			}()
		}
	}()
	p, err := Start(l.Addr().String())
	must(t, err)
	t.Cleanup(func() {
		must(t, p.Close())
		l.Close()
		if n := p.Open(); n != 0 {
			t.Errorf("%d connections are open after Close", n)
		}
	})
	return p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// talk sends text and reads as much.
func talk(c net.Conn, text string) (string, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	b := make([]byte, len(text))
	n, err := io.ReadFull(c, b)
	return string(b[:n]), err
}

func TestBytesPass(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	text := strings.Repeat("abc", 100_000)
	go func() {
		if _, err := io.WriteString(c, text); err != nil {
			t.Error(err)
		}
	}()
	b := make([]byte, len(text))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != text {
		t.Fatalf("%d bytes came back, %v", len(b), err)
	}
	if p.Accepted() != 1 || p.Open() != 1 {
		t.Errorf("accepted %d, open %d", p.Accepted(), p.Open())
	}
}

func TestDelayAndRateTakeTime(t *testing.T) {
	p := start(t)
	for _, f := range []Faults{{Delay: 20 * time.Millisecond}, {Rate: 1000}} {
		must(t, p.Set(f))
		began := time.Now()
		if got, err := talk(dial(t, p), strings.Repeat("x", 20)); err != nil || len(got) != 20 {
			t.Fatalf("%+v: %q, %v", f, got, err)
		}
		if took := time.Since(began); took < 40*time.Millisecond {
			t.Errorf("%+v: an answer after %s, want 40ms or more", f, took)
		}
	}
}

func TestCutsAreWhereTheyShouldBe(t *testing.T) {
	p := start(t)
	for _, c := range []struct {
		faults Faults
		want   string
		err    error
	}{
		{Faults{CutAnswer: 3}, "abc", io.ErrUnexpectedEOF},
		{Faults{CutRequest: 3, Delay: time.Millisecond}, "", nil},
		{Faults{CutAnswer: 3, Reset: true}, "abc", syscall.ECONNRESET},
		{Faults{Reset: true}, "", syscall.ECONNRESET},
	} {
		p.Next(c.faults)
		got, err := try(p, "abcdef")
		if err == nil || c.err != nil && !errors.Is(err, c.err) && !errors.Is(err, syscall.EPIPE) || !strings.HasPrefix(c.want, got) {
			t.Errorf("%+v: %q, %v; want %q, %v", c.faults, got, err, c.want, c.err)
		}
		if got, err := talk(dial(t, p), "ok"); err != nil || got != "ok" {
			t.Errorf("the connection after: %q, %v", got, err)
		}
	}
}

// try talks over a connection of its own, which may not even come to be.
func try(p *Proxy, text string) (string, error) {
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return "", err
	}
	defer c.Close()
	return talk(c, text)
}

func TestOpenConnectionsAreReset(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	if _, err := talk(c, "abc"); err != nil {
		t.Fatal(err)
	}
	must(t, p.Set(Faults{Reset: true}))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v", err)
	}
}

func TestRefusedUntilAllowedAgain(t *testing.T) {
	p := start(t)
	old := dial(t, p)
	if _, err := talk(old, "abc"); err != nil {
		t.Fatal(err)
	}
	must(t, p.Set(Faults{Refuse: true}))
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
	if got, err := talk(old, "still"); err != nil || got != "still" {
		t.Errorf("the open connection: %q, %v", got, err)
	}
	must(t, p.Set(Faults{}))
	if got, err := talk(dial(t, p), "again"); err != nil || got != "again" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestABlackHoleNeverAnswers(t *testing.T) {
	p := start(t)
	open := dial(t, p)
	if _, err := talk(open, "abc"); err != nil {
		t.Fatal(err)
	}
	must(t, p.Set(Faults{BlackHole: true}))
	for _, c := range []net.Conn{open, dial(t, p)} {
		must(t, c.SetDeadline(time.Now().Add(50*time.Millisecond)))
		if got, err := talk(c, "hello"); got != "" || !errors.Is(err, syscall.ETIMEDOUT) && !isTimeout(err) {
			t.Errorf("%q, %v", got, err)
		}
		c.Close()
	}
	must(t, p.Set(Faults{}))
	if got, err := talk(dial(t, p), "again"); err != nil || got != "again" {
		t.Errorf("%q, %v", got, err)
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
