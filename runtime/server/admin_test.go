package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// TestSRV8ReplayStaleCursor replays a subscription from cursors that do not belong to the log as it is (SRV-8).
func TestSRV8ReplayStaleCursor(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		s := w.subscribe("alice", params(plain, secretA, ""))
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		replay := func(what string, c wire.Cursor) {
			t.Helper()
			before := len(w.r.all())
			if err := w.Admin().Replay(t.Context(), s.ID, c.String(), 0); err != nil {
				t.Error(err)
			}
			w.settle(time.Minute)
			if got := slices.Sorted(slices.Values(w.r.shorts()[before:])); !slices.Equal(got, []string{"gap", "i1"}) {
				t.Errorf("%s: %q", what, got)
			}
		}
		old, err := wire.ParseCursor(*s.Cursor)
		if err != nil {
			t.Fatal(err)
		}
		old.Epoch++
		replay("a cursor of an earlier life of the log", old)
		// It was given out before an older copy of the log was put back (CUR-8).
		lost, err := wire.ParseCursor(*pollFrom(t, w.Server, nil, "").Cursor)
		if err != nil || lost.Proof == 0 {
			t.Fatal(lost, err)
		}
		lost.Proof ^= 2
		replay("a cursor of a lost entry", lost)
	})
}

// TestSRV8AllowOrigin lifts the rules about scheme and address for one exact origin (SRV-8).
func TestSRV8AllowOrigin(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		const local = "http://127.0.0.1:9000/hook"
		_, rerr := call(w.Server, "alice", wire.MethodSubscribe, params(local, secretA, ""))
		wantError(t, rerr, -32602, "*")
		for _, bad := range []string{"http://127.0.0.1:9000/", "http://127.0.0.1:9000/x", "http://a@127.0.0.1:9000", "127.0.0.1:9000", "http://127.0.0.1:9000?x", "ftp://127.0.0.1"} {
			if _, err := w.Admin().AllowOrigin(bad); err == nil {
				t.Errorf("%s is accepted", bad)
			}
		}
		revoke, err := w.Admin().AllowOrigin("http://127.0.0.1:9000")
		if err != nil {
			t.Fatal(err)
		}
		w.subscribe("alice", params(local, secretA, ""))
		if len(w.r.challenges()) != 1 {
			t.Error("verification is lifted too")
		}
		_, rerr = call(w.Server, "alice", wire.MethodSubscribe, params("http://127.0.0.1:9001/hook", secretA, ""))
		wantError(t, rerr, -32602, "*")
		revoke()
		_, rerr = call(w.Server, "alice", wire.MethodSubscribe, params(local, secretA, ""))
		wantError(t, rerr, -32602, "*")
	})
}

// HOOK-10: a server without webhooks has no keys to show.
func TestHOOK10KeySetWithoutWebhooks(t *testing.T) {
	rec := httptest.NewRecorder()
	newServer(t, Options{}).KeySet().ServeHTTP(rec, httptest.NewRequest("GET", KeySetPath, nil))
	if rec.Code != http.StatusNotFound {
		t.Error(rec.Code)
	}
}
