package transport

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
)

// A pipeListener hands out net.Pipe connections, which a bubble's clock understands.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.conns <- a:
		return b, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble serves h over pipes and gives a client; stop ends both, which a bubble needs before its
// function returns.
func (g *rig) bubble(m mode, h http.Handler, settings ...func(*http.Server)) (c *httpClient, stop func()) {
	l := newPipeListener()
	hs := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	tr := &http.Transport{DialContext: l.dial}
	if m.h2 {
		hs.Protocols, tr.Protocols = new(http.Protocols), new(http.Protocols)
		hs.Protocols.SetUnencryptedHTTP2(true)
		tr.Protocols.SetUnencryptedHTTP2(true)
	}
	for _, set := range settings {
		set(hs)
	}
	served := make(chan struct{})
	go func() { hs.Serve(l); close(served) }()
	stop = func() {
		g.stop()
		tr.CloseIdleConnections()
		hs.Close()
		<-served
		tr.CloseIdleConnections()
	}
	return g.dial(m, "http://pipe/mcp", &http.Client{Transport: tr}), stop
}
