package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
)

// subscribeBy subscribes through a carrier that answers when replied is called; nil is a carrier
// that does not tell.
func (w *world) subscribeBy(p string, tells bool) (s subscribed, replied func()) {
	w.t.Helper()
	text, release := w.inside().Issue(context.Background(), nil, nil)
	ticket := w.inside().Ticket(&mcp.RequestExtra{Header: http.Header{port.TicketHeader: {text}}})
	q := port.Request{Method: wire.MethodSubscribe, Params: json.RawMessage(p), Principal: "alice", Stateless: true}
	if tells {
		q.AfterReply = ticket.AfterReply
	}
	raw, err := w.inside().Call(context.Background(), q)
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s, release
}

// TestSUB1ResponseFirst holds deliveries back until the response of the subscribe is written: that
// of a new subscription with something to deliver at once, of a refresh of a lapsed one, and of a
// refresh that reactivates. What the response takes at most and what is waited for where no carrier
// tells of it are bounded.
func TestSUB1ResponseFirst(t *testing.T) {
	bubble(t, durably, func(w *world) {
		t := w.t
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		cursor := *pollAs(t, w.Server, "alice", `{"name":"e"}`).Cursor
		n := 0
		// after returns how long after the subscribe, or after its answer, the first delivery came.
		after := func(what string, want time.Duration, tells bool, answers time.Duration, more string) {
			t.Helper()
			n++
			emit(t, e, incident{ID: fmt.Sprint("i", n)})
			before := len(w.r.all())
			s, replied := w.subscribeBy(params(plain, secretA, fmt.Sprintf(`,"cursor":%q`, cursor)+more), tells)
			at := time.Now()
			if tells && answers >= 0 {
				w.settle(answers)
				at = time.Now()
				if m := len(w.r.all()); answers < subscriber.MaxReplyTime && m != before {
					t.Errorf("%s: %d deliveries before the response", what, m-before)
				}
				replied()
				replied() // is no harm
			}
			w.settle(subscriber.MaxReplyTime + time.Second)
			all := w.r.all()
			if len(all) == before {
				t.Fatalf("%s: nothing delivered", what)
			}
			if got := all[before].at.Sub(at); got != want {
				t.Errorf("%s: delivered %s after it, want %s", what, got, want)
			}
			if s.ID != all[before].header.Get("X-MCP-Subscription-Id") {
				t.Errorf("%s: %s", what, s.ID)
			}
			cursor = *w.subscribe("alice", params(plain, secretA, `,"ttlMs":60000`)).Cursor
			w.settle(time.Second)
		}
		after("a new one", subscriber.SettleTime, true, 3*time.Second, "")
		w.settle(2 * time.Minute)
		after("a lapsed one", subscriber.SettleTime, true, 3*time.Second, "")
		w.settle(2 * time.Minute)
		after("answered at once", subscriber.SettleTime, true, 0, "")
		w.settle(2 * time.Minute)
		after("a carrier that does not tell", subscriber.ReplyTime, false, 0, "")
		w.settle(2 * time.Minute)
		after("an answer that never comes", subscriber.MaxReplyTime, true, -1, "")
	})
}

// TestHOOK5ReactivatedAfterResponse resumes a suspended subscription after the response of the
// refresh.
func TestHOOK5ReactivatedAfterResponse(t *testing.T) {
	bubble(t, func(o *Options) {
		durably(o)
		o.Webhook.Retry.Suspend.Min = 2
	}, func(w *world) {
		t := w.t
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.subscribe("alice", params(plain, secretA, ""))
		w.settle(time.Second)
		w.r.on(refuseAll)
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Minute)
		w.r.on(nil)
		before := len(w.r.all())
		s, replied := w.subscribeBy(params(plain, secretA, ""), true)
		if s.DeliveryStatus == nil || s.DeliveryStatus.Active {
			t.Fatalf("%+v", s)
		}
		w.settle(5 * time.Second)
		if n := len(w.r.all()); n != before {
			t.Errorf("%d deliveries before the response", n-before)
		}
		replied()
		w.settle(subscriber.SettleTime)
		wantStrings(t, "after it", w.r.shorts()[before:], "i1")
	})
}

// TestREP11NotBefore stores with a subscription when its deliveries may begin, so that whoever
// delivers after a crash, or instead of who answered, waits for that too; a clock that was set back
// holds nothing up for long (REP-11).
func TestREP11NotBefore(t *testing.T) {
	bubble(t, durably, func(w *world) {
		t := w.t
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		cursor := *pollAs(t, w.Server, "alice", `{"name":"e"}`).Cursor
		emit(t, e, incident{ID: "i1"})
		s, _ := w.subscribeBy(params(plain, secretA, fmt.Sprintf(`,"cursor":%q`, cursor)), true)
		began := time.Now()
		r, ok, err := w.webhooks.Store().Subscription(t.Context(), s.ID)
		if err != nil || !ok || !r.NotBefore.Equal(began.Add(subscriber.ReplyTime)) {
			t.Fatalf("stored: %v, want %v (%v)", r.NotBefore, began.Add(subscriber.ReplyTime), err)
		}
		w.restart(nil)
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.settle(subscriber.ReplyTime - time.Millisecond)
		if n := len(w.r.all()); n != 0 {
			t.Errorf("%d deliveries too early", n)
		}
		w.settle(time.Millisecond)
		wantStrings(t, "delivered", w.r.shorts(), "i1")

		w.r.on(refuseAll)
		w.settle(time.Second)
		r, _, _ = w.webhooks.Store().Subscription(t.Context(), s.ID)
		r.NotBefore = time.Now().Add(24 * time.Hour)
		if _, err := w.webhooks.Store().PutSubscription(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		w.r.on(nil)
		w.restart(nil)
		e = register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		emit(t, e, incident{ID: "i2"})
		w.settle(time.Minute)
		wantStrings(t, "after a wrong time", w.r.shorts(), "i1", "i2")
		synctest.Wait()
	})
}
