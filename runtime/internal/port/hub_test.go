package port

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A message goes to the newest outlet of a session, or to the listeners of one principal and key; what
// is closed takes nothing, and an earlier outlet's end does not end a later one (MCPE-NOTE-4).
func TestOutlets(t *testing.T) {
	h := new(Hub)
	got := map[string]int{}
	outlet := func(name string, o Outlet) func() {
		o.Send = func(Message) bool { got[name]++; return name != "full" }
		return h.OpenOutlet(o)
	}
	opened := 0
	stop := h.OnOutlet(func(Outlet) { opened++ })
	old := outlet("old", Outlet{Session: "s"})
	fresh := outlet("fresh", Outlet{Session: "s"})
	old()
	if !h.Send("s", Message{}) || got["fresh"] != 1 || got["old"] != 0 || !h.Reachable("s") {
		t.Errorf("%v", got)
	}
	if fresh(); h.Send("s", Message{}) || h.Reachable("s") {
		t.Error("a closed outlet takes messages")
	}
	a := outlet("a", Outlet{Principal: "ann", Key: "k"})
	outlet("full", Outlet{Principal: "ann", Key: "k"})
	outlet("other", Outlet{Principal: "ben", Key: "k"})
	if n := h.SendToListeners("ann", "k", Message{}); n != 1 || got["a"] != 1 || got["full"] != 1 || got["other"] != 0 {
		t.Errorf("%d took it: %v", n, got)
	}
	if a(); h.SendToListeners("ann", "k", Message{}) != 0 || got["a"] != 1 {
		t.Errorf("%v", got)
	}
	if stop(); opened != 5 {
		t.Errorf("heard of %d outlets", opened)
	}
	if outlet("late", Outlet{Session: "l"}); opened != 5 {
		t.Error("heard of an outlet after stop")
	}
}

// Notifications go to who wants their method, until stop.
func TestNotifications(t *testing.T) {
	h := new(Hub)
	n := 0
	stop := h.OnNotification("m", func(context.Context, Notification) { n++ })
	h.Notified(t.Context(), Notification{Method: "m"})
	h.Notified(t.Context(), Notification{Method: "x"})
	if !h.Awaits("m") || h.Awaits("x") || n != 1 {
		t.Errorf("told %d times", n)
	}
	stop()
	if h.Notified(t.Context(), Notification{Method: "m"}); n != 1 || h.Awaits("m") {
		t.Error("told after stop")
	}
}

// What waits for an answer is told when it is written, once, and whoever comes later learns that it is over.
func TestReply(t *testing.T) {
	var r Reply
	told := 0
	if !r.Add(func() { told++ }) {
		t.Error("the answer is still to come")
	}
	r.Finish()
	r.Finish()
	if told != 1 || r.Add(func() { told++ }) {
		t.Errorf("told %d times", told)
	}
}

// T1, POLL-9: a call that the SDK comes to when its connection has ended is over, unless its client may come back for
// the answer; that one ends with its session, also when the session is about to end.
func TestUntilGone(t *testing.T) {
	for _, lasting := range []bool{true, false} {
		for _, when := range []string{"live", "gone"} {
			h := new(Hub)
			ctx, gone := context.WithCancel(t.Context())
			if lasting {
				ctx = context.WithoutCancel(ctx)
			}
			text, replied := h.ExpectReply(ctx, "http 1", "", false)
			extra := &mcp.RequestExtra{Header: http.Header{ReplyHeader: {text}}}
			leave := func() {
				gone()
				replied()
			}
			if when == "gone" {
				leave()
			}
			call, cancel := h.UntilGone(t.Context(), extra, "ann")
			leave()
			if !lasting {
				<-call.Done()
			} else if call.Err() != nil {
				t.Errorf("%s: it ended with its connection", when)
			}
			h.EndSession("http 1", "bob")()
			h.EndSession("http 2", "ann")()
			if lasting && call.Err() != nil {
				t.Errorf("%s: it ended with somebody else's session", when)
			}
			ended := h.EndSession("http 1", "ann")
			late, cancelLate := h.UntilGone(t.Context(), extra, "ann")
			ended()
			for what, ctx := range map[string]context.Context{"the call": call, "a late one": late} {
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
					t.Errorf("%s: %s goes on when the session is over", when, what)
				}
			}
			cancel()
			cancelLate()
			if len(h.held.calls)+len(h.held.ending) != 0 {
				t.Errorf("%s: kept: %v", when, &h.held)
			}
		}
	}
}
