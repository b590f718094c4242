package server

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
)

// subscribeBy subscribes through a carrier that answers when replied is called; nil is a carrier
// that does not tell.
func (w *world) subscribeBy(p string, tells bool) (s subscribed, replied func()) {
	w.t.Helper()
	reply := new(port.Reply)
	q := port.Request{Method: wire.MethodSubscribe, Params: json.RawMessage(p), Principal: "alice", Stateless: true}
	if tells {
		q.AfterReply = reply.Add
	}
	raw, err := w.inside().Call(context.Background(), q)
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s, reply.Finish
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
		o.webhook().Retry.Suspend.Min, o.webhook().Retry.Suspend.Span = 2, -1
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
