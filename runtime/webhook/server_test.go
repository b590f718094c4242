package webhook

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of in-memory connections.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestCLI5SlowBody ends a body that comes byte by byte, and leaves the connection's later requests
// alone (CLI-5).
func TestCLI5SlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e := newReceiver(t, ReceiverOptions{})
		e.Activate("sub_1", (&sink{}).take)
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		s := &http.Server{Handler: r}
		done := make(chan error)
		go func() { done <- s.Serve(l) }()

		ours, theirs := net.Pipe()
		l.conns <- theirs
		answers := bufio.NewReader(ours)
		// A whole message, then a pause that is longer than the time for a body, then another.
		for _, id := range []string{"evt_1", "evt_2"} {
			req, err := Signer{Ring: NewRing(e.Secret())}.NewRequest(t.Context(), "http://receiver.test"+e.Path(), event(id))
			if err != nil {
				t.Fatal(err)
			}
			if err := req.Write(ours); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(answers, req)
			if err != nil || resp.StatusCode != http.StatusNoContent {
				t.Fatal(resp, err)
			}
			time.Sleep(time.Minute)
		}
		start := time.Now()
		fmt.Fprintf(ours, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"+
			"webhook-id: a\r\nwebhook-timestamp: %d\r\nwebhook-signature: v1,a\r\n\r\n", e.Path(), time.Now().Unix())
		var dripping sync.WaitGroup
		dripping.Go(func() {
			for {
				time.Sleep(time.Second)
				if _, err := io.WriteString(ours, "x"); err != nil {
					return
				}
			}
		})
		resp, err := http.ReadResponse(answers, nil)
		if err != nil || resp.StatusCode != http.StatusRequestTimeout || time.Since(start) != 10*time.Second {
			t.Errorf("%v, %v after %v", resp, err, time.Since(start))
		}
		ours.Close()
		s.Close()
		<-done
		dripping.Wait()
	})
}

// TestHOOK2OverHTTP sends over a real server: what the signer makes is what the receiver takes.
func TestHOOK2OverHTTP(t *testing.T) {
	r, e := newReceiver(t, ReceiverOptions{})
	s := &sink{}
	e.Activate("sub_1", s.take)
	server := httptest.NewTLSServer(r)
	defer server.Close()
	client := server.Client()
	defer client.CloseIdleConnections()
	identity := newIdentity(t)
	ring := NewRing(NewSecret()).Rotate(e.Secret(), time.Now(), time.Minute)
	for i := range 3 {
		m := event(fmt.Sprint("evt_", i))
		req, err := Signer{Ring: ring, Identity: identity}.NewRequest(t.Context(), server.URL+e.Path(), m)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(strings.Fields(req.Header.Get("webhook-signature"))); n != 3 || req.ContentLength != int64(len(m.Body)) {
			t.Errorf("%d signatures", n)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			t.Errorf("%d", resp.StatusCode)
		}
	}
	if s.count() != 3 {
		t.Errorf("%d messages", s.count())
	}
	if _, err := (Signer{Ring: ring}).NewRequest(t.Context(), "https://u:secret@a b/", event("a")); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if _, err := (Signer{}).NewRequest(t.Context(), server.URL, event("a")); err == nil {
		t.Error("signed without a secret")
	}
}
