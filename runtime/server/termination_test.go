package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
)

// Trap 10 is carried by streaming.Stream.Terminate, where the first reason counts, by run.finish, and by run.loop,
// which asks for the end before each write.
//
// Trap 10, PUSH-6, PUSH-8: whatever ends a stream, at whatever step, there is at most one terminal
// signal and nothing after it; the slot is free, the index empty, nothing leaks (goleak in TestMain).
func TestTermination(t *testing.T) {
	ends := []struct {
		name       string
		end        func(s *Server, l *live)
		terminated string // data of the error, "" for none
		final      bool
	}{
		{"client aborts", func(s *Server, l *live) { l.cancel() }, "", false},
		{"write fails", nil, "", false},
		{"carrier ends", func(s *Server, l *live) { l.st.End(); l.st.End() }, "", true},
		{"shutdown", func(s *Server, l *live) { s.Shutdown(context.Background()) }, "", true},
		{"removed (EVOL-1)", func(s *Server, l *live) { s.Remove("e") }, `{"kind":"event"}`, true},
		{"revoked (AUTH-2)", func(s *Server, l *live) { s.Revoke(context.Background(), "ann") }, `{"reason":"access revoked"}`, true},
		{"two at once", func(s *Server, l *live) { s.Revoke(context.Background(), "ann", "e"); s.Remove("e") }, `{"reason":"access revoked"}`, true},
		{"token expires (AUTH-4)", func(s *Server, l *live) { time.Sleep(time.Minute) }, "", true},
	}
	for _, tc := range ends {
		for step := range 8 {
			t.Run(fmt.Sprint(tc.name, " at ", step), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var hooks journal
					s := newServer(t, Options{MaxStreams: 1, Heartbeat: time.Second, Reauthorize: -1})
					e := register(t, s, "e", Hooks[filterArgs, incident]{
						OnSubscribe:   func(context.Context, Subscription, *filterArgs) error { hooks.add("on"); return nil },
						OnUnsubscribe: func(context.Context, Subscription, *filterArgs) { hooks.add("off") },
					})
					r := streamRequest("ann", `{"name":"e"}`)
					r.Expires = time.Now().Add(30 * time.Second)
					st, err := opened(s.inside().Open(context.Background(), r))
					if err != nil {
						t.Fatal(err)
					}
					broken := errors.New("connection is gone")
					ctx, cancel := context.WithCancel(context.Background())
					l := &live{recorder: &recorder{id: "8"}, st: st, cancel: cancel, done: make(chan struct{})}
					l.gate = func(n int, _ []frame.Frame) error {
						if tc.end == nil && n == step {
							return broken
						}
						return nil
					}
					if tc.end != nil && step == 0 {
						var ending sync.WaitGroup
						ending.Go(func() { tc.end(s, l) }) // before Run
						defer ending.Wait()
						synctest.Wait()
					}
					go func() { defer close(l.done); l.final, l.err = st.Run(ctx, l.recorder) }()
					for i := range 20 {
						if e.et.current() == nil || s.isClosed() {
							break
						}
						emit(t, e, incident{ID: fmt.Sprint("x", i)})
						if tc.end != nil && i+1 == step {
							tc.end(s, l)
							break
						}
						time.Sleep(600 * time.Millisecond)
					}
					synctest.Wait()
					<-l.done
					if _, rerr := s.inside().Open(context.Background(), streamRequest("ann", `{"name":"e"}`)); rerr != nil && strings.Contains(rerr.Error(), "ResourceExhausted") {
						t.Error("the slot is not free")
					} else if rerr == nil {
						for _, other := range s.streams.All() {
							other.Close()
							other.Close()
						}
					}
					checkTermination(t, l, tc.terminated, tc.final)
					if got := hooks.lines(); len(got)%2 != 0 || got[0] != "on" || got[1] != "off" {
						t.Errorf("hooks: %q", got)
					}
					if left := e.et.topic.Holding().Readers; len(left) != 0 {
						t.Errorf("readers left in the index: %v", left)
					}
				})
			})
		}
	}
}

// checkTermination reads a transcript.
func checkTermination(t *testing.T, l *live, terminated string, final bool) {
	t.Helper()
	fs := l.frames()
	for i, f := range fs {
		if (f.method == wire.NotificationActive) != (i == 0) {
			t.Errorf("frame %d is %s", i, f.short())
		}
		if f.method == wire.NotificationTerminated && (i != len(fs)-1 || terminated == "") {
			t.Errorf("frame %d of %d is %s", i, len(fs), f.raw)
		}
	}
	if terminated != "" && (len(fs) == 0 || fs[len(fs)-1].method != wire.NotificationTerminated || string(fs[len(fs)-1].params.Error.Data) != terminated) {
		t.Errorf("no terminated %s in %q", terminated, l.shorts())
	}
	if final != (l.final != nil) || final != (l.err == nil) {
		t.Errorf("final %s, error %v", l.final, l.err)
	}
	if _, err := l.st.Run(context.Background(), l.recorder); err == nil {
		t.Error("a stream ran twice")
	}
	if len(l.frames()) != len(fs) {
		t.Error("something was written after the end")
	}
}

// SRV-6: Shutdown is bounded by its context and idempotent; afterwards nothing new begins.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		register(t, s, "e", Hooks[filterArgs, incident]{})
		st, rerr := openStream(s, "", `{"name":"e"}`)
		if rerr != nil {
			t.Fatal(rerr)
		}
		stuck := make(chan struct{})
		rec := &recorder{id: "8", gate: func(int, []frame.Frame) error { <-stuck; return nil }}
		done := make(chan struct{})
		go func() { defer close(done); st.Run(context.Background(), rec) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Fatalf("Shutdown = %v after %v", err, time.Since(began))
		}
		select {
		case <-s.closing:
		default:
			t.Error("Closing is open")
		}
		_, rerr = openStream(s, "", `{"name":"e"}`)
		wantError(t, rerr, -32603, `{"reason":"shutting_down"}`)
		if _, err := Register(s, incidentType("late"), Hooks[filterArgs, incident]{}); !errors.Is(err, events.ErrClosed) {
			t.Errorf("Register = %v", err)
		}
		close(stuck)
		<-done
		if err := s.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

// SRV-3: two streams of one subscription are one to the hooks, which run once each.
func TestOneMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooks journal
		s := newServer(t, Options{})
		register(t, s, "e", Hooks[filterArgs, incident]{
			OnSubscribe: func(context.Context, Subscription, *filterArgs) error {
				time.Sleep(time.Second)
				hooks.add("on")
				return nil
			},
			OnUnsubscribe: func(context.Context, Subscription, *filterArgs) { time.Sleep(time.Second); hooks.add("off") },
		})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				st, rerr := openStream(s, "ann", `{"name":"e"}`)
				if rerr != nil {
					t.Error(rerr)
					return
				}
				time.Sleep(time.Second)
				st.Close()
			})
		}
		wg.Wait()
		wantStrings(t, "hooks", hooks.lines(), "on", "off")
	})
}

// AUTH-3, AUTH-4: the principal is the token's user, or what the option derives; a panic is nobody.
func TestAuthenticate(t *testing.T) {
	until := time.Now().Add(time.Hour)
	extra := &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: "ann", Expiration: until}, Header: http.Header{"X-User": {"bob"}}}
	s := newServer(t, Options{})
	if p, e := s.authenticate(t.Context(), extra); p != "ann" || !e.Equal(until) {
		t.Errorf("token: %q, %v", p, e)
	}
	if p, e := s.authenticate(t.Context(), nil); p != "" || !e.IsZero() {
		t.Errorf("nothing: %q, %v", p, e)
	}
	s = newServer(t, Options{Principal: func(_ context.Context, x *mcp.RequestExtra) string {
		if x.Header == nil {
			panic("secret")
		}
		return x.Header.Get("X-User")
	}})
	if p, _ := s.authenticate(t.Context(), extra); p != "bob" {
		t.Errorf("option: %q", p)
	}
	if p, _ := s.authenticate(t.Context(), nil); p != "" {
		t.Errorf("panic: %q", p)
	}
}
