package server

import (
	"context"
	"encoding/json"
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

// TestHOOK5ReactivatedAfterResponse resumes a suspended subscription after the response of the
// refresh.
func TestHOOK5ReactivatedAfterResponse(t *testing.T) {
	bubble(t, func(o *Options) {
		durably(o)
		o.webhook().Retry.Suspend.Min, o.webhook().Retry.Suspend.Span = 2, -1
	}, func(t *testing.T, w *world) {
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
