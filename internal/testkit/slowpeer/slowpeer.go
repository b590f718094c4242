// Package slowpeer simulates a client that starts to send a body and never finishes, for tests in testing/synctest
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

// Hold sends the head of a request and the first of the 50 bytes of its body to srv. It returns the response and how
// long the connection was open. It waits for at most one hour.
func Hold(srv *http.Server, head string) (answer string, held time.Duration, err error) {
	l := &listener{conns: make(chan net.Conn, 1), over: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	ours, theirs := net.Pipe()
	l.conns <- tcpConn{theirs}
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

// A listener accepts the connections from a channel.
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

// A tcpConn is a connection with TCP addresses.
type tcpConn struct{ net.Conn }

func (tcpConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (tcpConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711} }
