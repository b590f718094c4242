// Package slowpeer simulates a client that starts a body and never finishes it, for tests in testing/synctest
// bubbles.
package slowpeer

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Hold sends srv the head of a request and one of the 50 bytes of its body. It returns the response and the time
// until the connection was closed. It waits at most an hour.
func Hold(srv *http.Server, head string) (answer string, held time.Duration, err error) {
	l := &listener{conns: make(chan net.Conn, 1), over: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	ours, theirs := net.Pipe()
	l.conns <- addressed{theirs}
	began := time.Now()
	go func() { _, _ = io.WriteString(ours, head+"Content-Length: 50\r\n\r\n{") }()
	_ = ours.SetReadDeadline(began.Add(time.Hour))
	b, err := io.ReadAll(ours)
	held = time.Since(began)
	ours.Close()
	srv.Close()
	if served := <-ended; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	return string(b), held, err
}

// A listener returns the connections that are put in.
type listener struct {
	conns chan net.Conn
	once  sync.Once
	over  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// An addressed connection has TCP addresses.
type addressed struct{ net.Conn }

func (addressed) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711} }
