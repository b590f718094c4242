package transport

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
)

// A brittle writer of events fails to write or to flush.
type brittle struct {
	http.ResponseWriter
	write, flush error
}

func (w *brittle) Write(p []byte) (int, error) {
	if w.write != nil {
		return 0, w.write
	}
	return len(p), nil
}

func (w *brittle) FlushError() error { return w.flush }

// MCPE-DEL-2: an adapter learns that its message was written and flushed, or that it never will be: a
// failed write, a failed flush, a response that ends before.
func TestWrittenOverHTTP(t *testing.T) {
	cut := errors.New("cut")
	for name, row := range map[string]struct {
		w    *brittle
		want bool
	}{
		"written":        {&brittle{}, true},
		"no flusher":     {&brittle{flush: http.ErrNotSupported}, true},
		"write fails":    {&brittle{write: cut}, false},
		"flush fails":    {&brittle{flush: cut}, false},
		"ends too early": {nil, false},
	} {
		h := &handler{writeTimeout: time.Second}
		rec := newRecorder()
		rec.header.Set("Content-Type", sse.ContentType)
		a := h.newAnnouncer(rec, nil)
		if row.w != nil {
			row.w.ResponseWriter = rec
			a = h.newAnnouncer(row.w, nil)
			a.mu.Lock()
			a.markStarted()
			a.mu.Unlock()
		}
		got := make(chan bool, 2)
		if !a.send(port.Message{Method: "x", Params: []byte(`{}`), Written: func(ok bool) { got <- ok }}) {
			t.Fatalf("%s: not taken", name)
		}
		if row.w == nil {
			a.close()
		}
		if ok := recv(t, got, name); ok != row.want {
			t.Errorf("%s: written %v", name, ok)
		}
		a.close()
		if len(got) > 0 {
			t.Errorf("%s: told twice", name)
		}
		if a.send(port.Message{Method: "x", Params: []byte(`{}`)}) {
			t.Errorf("%s: takes messages after its end", name)
		}
	}
}

// The same on a message-based connection: nothing is written to a peer that reads nothing.
func TestWrittenOnStdio(t *testing.T) {
	sink := &stuck{free: make(chan struct{})}
	out := newOutbox(func(error) {})
	ctx, cancel := context.WithCancel(t.Context())
	k := &conn{lines: &lineConn{w: sink}, out: out, ctx: ctx}
	s := &sender{conn: k}
	got := make(chan bool, 4)
	message := port.Message{Method: "x", Params: []byte(`{}`), Written: func(ok bool) { got <- ok }}
	for range 2 {
		if !s.send(message) {
			t.Fatal("not taken")
		}
	}
	select {
	case ok := <-got:
		t.Errorf("written %v to a stuck sink", ok)
	case <-time.After(20 * time.Millisecond):
	}
	sink.free <- struct{}{}
	if !recv(t, got, "first") {
		t.Error("the first was written")
	}
	s.close()
	if recv(t, got, "second") {
		t.Error("the second was not")
	}
	cancel()
	close(sink.free)
	out.close()
	if len(got) > 0 || s.send(message) {
		t.Error("told twice, or takes messages after its end")
	}
}

// A stuck sink takes one write each time it is freed.
type stuck struct{ free chan struct{} }

func (s *stuck) Write(p []byte) (int, error) {
	<-s.free
	return len(p), nil
}

func (s *stuck) Close() error { return nil }
