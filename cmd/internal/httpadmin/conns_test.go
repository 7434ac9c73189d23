package httpadmin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ask makes one request on a connection of its own.
func ask(t *testing.T, url, token string) (status int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// isOpen reports whether the far side has not closed a connection.
func isOpen(c net.Conn) bool {
	if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return false
	}
	_, err := io.Copy(io.Discard, c)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// Whoever has no token, and does nothing, half of something or what is open to all, keeps
// nobody out: they make room for others, the longest idle first, and there are never more
// connections than maxConns.
func TestStrangersKeepNobodyOut(t *testing.T) {
	for what, say := range map[string]string{
		"say nothing": "", "begin a request": "GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ", "were answered": "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
		"have a wrong token": "GET /status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer 1234567890123456\r\n\r\n",
		"send half a body":   "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx",
	} {
		t.Run(what, func(t *testing.T) {
			url, tokenFile, stop := start(t, &fakeNode{})
			token, err := ReadToken(tokenFile)
			if err != nil {
				t.Fatal(err)
			}
			var conns []net.Conn
			for range maxConns + 50 {
				c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(c, say); err != nil {
					t.Fatal(err)
				}
				conns = append(conns, c)
			}
			began := time.Now()
			for _, q := range []struct{ path, token string }{{"/livez", ""}, {"/status", token}, {"/livez", ""}} {
				if status, err := ask(t, url+q.path, q.token); err != nil || status != http.StatusOK {
					t.Errorf("%s: %d, %v", q.path, status, err)
				}
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("three answers took %v", took)
			}
			open := 0
			for _, c := range conns {
				if isOpen(c) {
					open++
				}
			}
			if open > maxConns {
				t.Errorf("%d connections are open", open)
			}
			if what == "say nothing" && (isOpen(conns[0]) || !isOpen(conns[len(conns)-1])) {
				t.Error("it is not the oldest that makes room")
			}
			for _, c := range conns { // the server waits for them at its end
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Whoever has the token and is being answered is never closed for another: those wait.
func TestClientsAreNotClosedForOthers(t *testing.T) {
	n := &fakeNode{script: []step{batch(0, "amqp:1"), {block: true}}}
	cfg := config(n)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	s := New(cfg)
	go func() { served <- s.answer(ctx, newCapped(ln, 2), testToken) }()
	url := "http://" + ln.Addr().String()
	reading := func() (*bufio.Reader, net.Conn) {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET /streams/shop/records?follow=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", testToken)
		r := bufio.NewReader(c)
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q %v", line, err)
		}
		return r, c
	}
	first, conn := reading()
	second, other := reading()
	defer other.Close()
	var third sync.WaitGroup
	third.Go(func() {
		if status, err := ask(t, url+"/livez", ""); err != nil || status != http.StatusOK {
			t.Errorf("the third was answered %d, %v", status, err)
		}
	})
	for _, c := range []*bufio.Reader{first, second} {
		for {
			line, err := c.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, `"offset":0`) {
				break
			}
		}
	}
	n.mu.Lock()
	closed := n.closed
	n.mu.Unlock()
	if closed > 0 {
		t.Errorf("%d readings were closed for a stranger", closed)
	}
	if err := conn.Close(); err != nil { // the first goes by itself
		t.Error(err)
	}
	third.Wait()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// The worth of a connection decides before its age.
func TestWhoMakesRoom(t *testing.T) {
	l := newCapped(nil, 5)
	at := time.Now()
	for i, c := range []*cappedConn{{serving: true, trusted: true}, {serving: true}, {trusted: true}, {}, {}} {
		c.since = at.Add(time.Duration(i) * time.Second)
		l.open[c] = struct{}{}
	}
	var order []int
	for range 5 {
		victim, entered := l.enter(&cappedConn{serving: true, trusted: true})
		if !entered {
			break
		}
		order = append(order, int(victim.since.Sub(at)/time.Second))
	}
	if !slices.Equal(order, []int{3, 4, 2, 1}) {
		t.Errorf("room was made by %v", order)
	}
}

// A listener that is closed lets nobody in, nor keeps who waits for room.
func TestAClosedListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newCapped(inner, 1)
	l.open[&cappedConn{of: l, serving: true, trusted: true}] = struct{}{}
	c, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	waits := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		waits <- err
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err == nil {
		t.Error("a closed listener accepts")
	}
	if _, err := l.Accept(); err == nil {
		t.Error("a closed listener accepts")
	}
}
