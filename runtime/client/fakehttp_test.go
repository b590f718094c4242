package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.wg.Add(1)
	defer f.wg.Done()
	session := r.Header.Get("Mcp-Session-Id")
	f.mu.Lock()
	get, known := f.sessions[session]
	f.mu.Unlock()
	if session != "" && !known {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	rc := http.NewResponseController(w)
	sse := func(b []byte) error {
		if _, err := fmt.Fprintf(w, "event: message\ndata: %s\n\n", b); err != nil {
			return err
		}
		return rc.Flush()
	}
	switch r.Method {
	case http.MethodGet:
		w.Header().Set("Content-Type", "text/event-stream")
		rc.Flush()
		for {
			select {
			case b := <-get:
				sse(b)
			case <-r.Context().Done():
				return
			case <-f.done:
				return
			}
		}
	case http.MethodDelete:
		f.mu.Lock()
		delete(f.sessions, session)
		f.mu.Unlock()
		return
	}
	body, _ := io.ReadAll(r.Body)
	msg, err := jsonrpc.DecodeMessage(body)
	m, ok := msg.(*jsonrpc.Request)
	if err != nil || !ok {
		http.Error(w, "bad message", http.StatusBadRequest)
		return
	}
	f.note(m, r.Header.Clone())
	if f.refuse != nil && f.refuse(w, r, m) {
		return
	}
	if !m.IsCall() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if play := f.script(m); play != nil {
		started := false
		write := func(b []byte) error {
			if !started {
				started = true
				w.Header().Set("Content-Type", "text/event-stream")
			}
			return sse(b)
		}
		final := f.run(r.Context(), m, play, write)
		if !started && final != nil {
			w.Header().Set("Content-Type", "application/json")
			w.Write(final)
			return
		}
		if final != nil {
			write(final)
		}
		return
	}
	if m.Method == "initialize" {
		f.mu.Lock()
		f.next++
		id := fmt.Sprint("s", f.next)
		f.sessions[id] = make(chan []byte)
		f.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(encode2(f.answer(m))(m))
}

// httpClient serves f over net.Pipe, which works in a synctest bubble.
func (f *fake) httpClient(t *testing.T) *http.Client { return f.serve(t, f) }

// serve serves h instead.
func (f *fake) serve(t *testing.T, h http.Handler) *http.Client {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: h}
	f.wg.Go(func() { srv.Serve(l) })
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }}
	t.Cleanup(func() {
		close(f.done)
		tr.CloseIdleConnections()
		srv.Close()
		f.wg.Wait()
	})
	return &http.Client{Transport: tr}
}

type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return mine, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }
