package client

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
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

// httpClient serves f over a network in memory, which works in a synctest bubble.
func (f *fake) httpClient(t *testing.T) *http.Client { return f.serve(t, f) }

// serve serves h instead.
func (f *fake) serve(t *testing.T, h http.Handler) *http.Client {
	l := memnet.New()
	srv := &http.Server{Handler: h}
	f.wg.Go(func() { srv.Serve(l) })
	tr := &http.Transport{DialContext: l.DialContext}
	t.Cleanup(func() {
		close(f.done)
		tr.CloseIdleConnections()
		srv.Close()
		f.wg.Wait()
	})
	return &http.Client{Transport: tr}
}
