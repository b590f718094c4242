package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// kept is what survives a process: stores in memory that outlive clients.
func kept(stored bool) (Options, *clientmemory.Cursors, *clientmemory.Received, *clientmemory.Callbacks) {
	cursors, callbacks := clientmemory.NewCursors(), &clientmemory.Callbacks{}
	received := clientmemory.NewReceived(cursors)
	o := Options{Cursors: cursors, Webhook: &WebhookOptions{Callbacks: callbacks}}
	if stored {
		o.Webhook.Received = received
	}
	return o, cursors, received, callbacks
}

// crash ends a client as the death of its process would: nobody is told, nothing is saved any more.
func (h *hooks) crash(cl *Client) {
	cl.webhooks.Keep = true // no goodbye
	cl.Close()
}

// CLI-5: after a restart the client answers on the same path with the same secret, ends what the
// server may have given up meanwhile, subscribes again from its cursor, and hands out first what had
// been stored; only what was not committed comes again.
func TestCLI5Restart(t *testing.T) {
	for _, stored := range []bool{false, true} {
		eachCarrier(t, func(t *testing.T, c carrier) {
			o, cursors, _, _ := kept(stored)
			h, cl := hooked(t, c, o)
			s := subscribe(t, cl, WithCursorKey("k"))
			first := h.sub()
			h.emit(6)
			h.deliver()
			r := read(t, s)
			r.want("e1", "e2", "e3") // e3 is in hand, not committed
			h.crash(cl)
			if got := saved(t, cursors, "k"); got != "c2" {
				t.Fatalf("saved %s", got)
			}
			h.emit(2)
			sub := h.sub()
			h.set(func() { sub.settled = 8 }) // given up while nobody answered
			cl = h.client(c, o)
			s = subscribe(t, cl, WithCursorKey("k"))
			calls := h.calls()
			if len(h.unsubscribed) != 1 || len(calls) != 2 || calls[1].Delivery != calls[0].Delivery || calls[1].cursor() != "c2" {
				t.Fatalf("unsubscribed %v, calls %+v", h.unsubscribed, calls)
			}
			if h.sub() == first {
				t.Error("the subscription was not made anew")
			}
			h.deliver()
			read(t, s).want("e3", "e4", "e5", "e6", "e7", "e8")
			if d := s.Subscription().Status().Duplicates; stored && d != 4 {
				t.Errorf("%d duplicates", d)
			}
		})
	}
}

// CLI-5: a type without cursors is refreshed, not unsubscribed: what the server still retries is all
// there is. What was stored and not committed comes again, what was committed does not.
func TestCLI5RestartWithoutReplay(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		o, cursors, received, _ := kept(true)
		h, cl := hooked(t, c, o)
		h.noReplay = true
		s := subscribe(t, cl, WithCursorKey("k"))
		h.emit(5)
		h.deliver()
		r := read(t, s)
		r.want("e1", "e2", "e3")
		h.crash(cl)
		if got := saved(t, cursors, "k"); got != "none" {
			t.Errorf("a null cursor was saved: %s", got)
		}
		if left, _ := received.Received(t.Context(), "k", 0, 10); len(left) != 3 {
			t.Errorf("%d bodies left", len(left))
		}
		h.emit(1)
		h.deliver() // nobody answers
		cl = h.client(c, o)
		s = subscribe(t, cl, WithCursorKey("k"))
		if len(h.unsubscribed) != 0 {
			t.Errorf("unsubscribed %v", h.unsubscribed)
		}
		h.event(h.sub(), 2, "") // its first answer was lost
		h.deliver()
		read(t, s).want("e3", "e4", "e5", "e6")
		h.crash(cl)
		h.lose()
		cl = h.client(c, o)
		s = subscribe(t, cl, WithCursorKey("k"))
		r = read(t, s)
		// e6 was in hand; where the gap stands among what was stored is not known.
		got := map[string]bool{r.word(): true, r.word(): true}
		if !got["e6"] || !got["gap:"] {
			t.Errorf("got %v", got)
		}
	})
}

// CLI-5: before anything was committed, delivery starts again where it began; another public URL ends
// the subscription to the old one; another prefix gets another path.
func TestCLI5RestartMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, _, callbacks := kept(false)
		h, cl := hooked(t, carriers[1], o)
		subscribe(t, cl, WithCursorKey("k"))
		h.crash(cl)
		cb, _, _ := callbacks.Callback(t.Context(), "k")
		old := "https://elsewhere.example" + cb.Path
		cb.URL = old
		if err := callbacks.PutCallback(t.Context(), "k", cb); err != nil {
			t.Fatal(err)
		}
		cl = h.client(carriers[1], o)
		subscribe(t, cl, WithCursorKey("k"))
		calls := h.calls()
		if h.unsubscribed[0] != old || calls[1].cursor() != "c0" || calls[1].Delivery.URL != calls[0].Delivery.URL {
			t.Errorf("unsubscribed %v, subscribed %+v", h.unsubscribed, calls[1])
		}
		h.crash(cl)
		cb.Path, cb.URL = "/other/prefix/x", "https://elsewhere.example/other/prefix/x"
		if err := callbacks.PutCallback(t.Context(), "k", cb); err != nil {
			t.Fatal(err)
		}
		cl = h.client(carriers[1], o)
		subscribe(t, cl, WithCursorKey("k"))
		if got := h.calls()[2].Delivery.URL; got == calls[1].Delivery.URL {
			t.Errorf("the same URL %s", got)
		}
		cl.Close()
	})
}

// CLI-5: an application that says where to start does not get what an earlier process received.
func TestCLI5RestartElsewhere(t *testing.T) {
	for name, option := range map[string]SubscribeOption{"c4": WithCursor("c4"), "null": FromNow()} {
		synctest.Test(t, func(t *testing.T) {
			o, _, received, _ := kept(true)
			h, cl := hooked(t, carriers[1], o)
			subscribe(t, cl, WithCursorKey("k"))
			h.emit(5)
			h.deliver()
			h.crash(cl)
			cl = h.client(carriers[1], o)
			s := subscribe(t, cl, WithCursorKey("k"), option)
			if left, _ := received.Received(t.Context(), "k", 0, 10); len(left) != 0 || len(h.unsubscribed) != 1 || h.calls()[1].cursor() != name {
				t.Errorf("%d bodies left, unsubscribed %v, from %s", len(left), h.unsubscribed, h.calls()[1].cursor())
			}
			h.emit(1)
			h.deliver()
			if name == "c4" {
				read(t, s).want("e5", "e6")
			} else {
				read(t, s).want("e6")
			}
		})
	}
}

// flaky is a store that fails when told to.
type flaky struct {
	clientstore.ReceivedStore
	clientstore.CallbackStore
	put, callback error
}

func (f *flaky) PutReceived(ctx context.Context, key string, r clientstore.Received) (bool, error) {
	if f.put != nil {
		return false, f.put
	}
	return f.ReceivedStore.PutReceived(ctx, key, r)
}

func (f *flaky) PutCallback(ctx context.Context, key string, c clientstore.Callback) error {
	if f.callback != nil {
		return f.callback
	}
	return f.CallbackStore.PutCallback(ctx, key, c)
}

// CLI-5: nothing is answered with 2xx that is not stored, and the server is not told of a secret or a
// path that is not.
func TestCLI5StoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cursors := clientmemory.NewCursors()
		f := &flaky{ReceivedStore: clientmemory.NewReceived(cursors), CallbackStore: &clientmemory.Callbacks{}}
		full := errors.New("disk full")
		f.callback = full
		h, cl := hooked(t, carriers[1], Options{Cursors: cursors, Webhook: &WebhookOptions{Received: f}})
		var commit *CommitError
		if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil); !errors.As(err, &commit) || !errors.Is(err, full) {
			t.Error(err)
		}
		if len(h.calls()) != 0 {
			t.Error("subscribed all the same")
		}
		f.callback = nil
		s := subscribe(t, cl)
		f.put = full
		if status := h.event(h.sub(), 1, "c1"); status != 503 {
			t.Errorf("not stored, but answered with %d", status)
		}
		f.put = nil
		if status := h.event(h.sub(), 1, "c1"); status != 204 {
			t.Errorf("stored: %d", status)
		}
		time.Sleep(time.Second)
		read(t, s).want("e1")
	})
}
