package client

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// CLI-2, section 13: with the real server every subscription receives what matches, in order, once,
// whatever the mode, the carrier and the era.
func TestRealDelivery(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		h := newHouse(t, c, server.Options{})
		cl := h.connect(Options{})
		subs := map[*typedSub]int{} // to the first number expected
		for _, mode := range []string{"push", "poll"} {
			subs[h.subscribe(cl, "", WithMode(mode))] = 0
			subs[h.subscribe(cl, "even", WithMode(mode))] = 2
			subs[h.subscribe(cl, "odd", WithMode(mode))] = 1
		}
		h.emit(1, 200)
		time.Sleep(time.Minute)
		h.emit(201, 300)
		for s, first := range subs {
			if first == 0 {
				s.want(ids(1, 300, 1)...)
			} else {
				s.want(ids(first, 300, 2)...)
			}
			s.silent()
			if s.Subscription().Status().Drift != nil {
				t.Error("drift")
			}
		}
		_, err := Subscribe(t.Context(), cl, Dynamic("tick"), json.RawMessage(`{"nonsense":1}`))
		if !errors.Is(err, events.ErrInvalidParams) {
			t.Error(err)
		}
		if _, err := Subscribe(t.Context(), cl, Dynamic("tock"), nil); !errors.Is(err, events.ErrNotFound) {
			t.Error(err)
		}
	})
}

// Section 13: when the server restarts with its log kept, nothing is lost or doubled; with a new
// log the loss is a gap, and what the new life has is received.
func TestRealRestart(t *testing.T) {
	for _, kept := range []bool{true, false} {
		eachCarrier(t, func(t *testing.T, c carrier) {
			st := &reopened{Store: memory.New()}
			o := server.Options{}
			if kept {
				o.Store = st
			}
			h := newHouse(t, c, o)
			cl := h.connect(Options{})
			push, poll := h.subscribe(cl, ""), h.subscribe(cl, "", WithMode("poll"))
			h.emit(1, 10)
			time.Sleep(20 * time.Second)
			push.want(ids(1, 10, 1)...)
			poll.want(ids(1, 10, 1)...)
			h.stop()
			h.start()
			h.emit(11, 20)
			time.Sleep(time.Minute)
			h.emit(21, 30)
			if !kept {
				push.want("gap")
				poll.want("gap")
			}
			push.want(ids(11, 30, 1)...)
			poll.want(ids(11, 30, 1)...)
			push.silent()
			poll.silent()
		})
	}
}

// reopened is a memory store that plays a durable one.
type reopened struct{ store.Store }

func (*reopened) Close() error { return nil }

// CLI-7, AUTH-2, EVOL-1: a revoked subscription and one whose type is removed end with the reason;
// an incompatible change is gone along with.
func TestRealTermination(t *testing.T) {
	for _, codes := range []server.Codes{server.CodesSketch, server.CodesSEP} {
		eachCarrier(t, func(t *testing.T, c carrier) {
			h := newHouse(t, c, server.Options{Codes: codes})
			cl := h.connect(Options{})
			s := h.subscribe(cl, "")
			h.emit(1, 1)
			s.want("e1")
			changed := tickType(t, `,"extra":{"type":"string"}`)
			changed.PayloadSchema = json.RawMessage(`{"type":"object","properties":{"seq":{"type":"integer"}},"required":["seq"]}`)
			changed.Fingerprint = ""
			changed.Match = nil
			changed.InputSchema = json.RawMessage(`{"type":"object","properties":{"channel":{"type":"string"}}}`)
			ticks, err := server.Register(h.es, changed, server.Hooks[tickArguments, tickPayload]{})
			if err != nil {
				t.Fatal(err)
			}
			h.ticks = ticks
			time.Sleep(5 * time.Second)
			h.emit(2, 2)
			s.want("e2")
			if s.Subscription().Status().Drift == nil {
				t.Error("no drift reported")
			}
			if err := h.es.Remove("tick"); err != nil {
				t.Fatal(err)
			}
			s.want("error: client: subscription to tick terminated: NotFound {\"kind\":\"event\"}")
			if _, open := <-s.got; open {
				t.Error("goes on")
			}
			if len(cl.Subscriptions()) != 0 {
				t.Error("in the registry")
			}
		})
	}
	eachCarrier(t, func(t *testing.T, c carrier) {
		h := newHouse(t, c, server.Options{})
		cl := h.connect(Options{})
		s := h.subscribe(cl, "")
		h.es.Revoke(t.Context(), "")
		s.want("error: client: subscription to tick terminated: Forbidden {\"reason\":\"access revoked\"}")
	})
}

// CLI-9, LIST-5: the real server's list_changed reaches the catalog in both eras.
func TestRealListChanged(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		h := newHouse(t, c, server.Options{})
		var names [][]string
		var mu sync.Mutex
		h.connect(Options{Relist: 24 * time.Hour, OnCatalog: func(all []Descriptor) {
			mu.Lock()
			defer mu.Unlock()
			var now []string
			for _, d := range all {
				now = append(now, d.Name)
			}
			names = append(names, now)
		}})
		time.Sleep(time.Second)
		tock := tickType(t, "")
		tock.Name = "tock"
		if _, err := server.Register(h.es, tock, server.Hooks[tickArguments, tickPayload]{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(names) == 0 || !slices.Equal(names[len(names)-1], []string{"tick", "tock"}) {
			t.Errorf("catalogs %v", names)
		}
	})
}

// PUSH-7: a subscriber that stopped reading while the log moved on gets a gap and the rest.
func TestRealGap(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		h := newHouse(t, c, server.Options{Retention: server.Retention{MaxCount: 50}})
		cl := h.connect(Options{Buffer: 8})
		slow, err := Subscribe(t.Context(), cl, tickType(t, ""), tickArguments{})
		if err != nil {
			t.Fatal(err)
		}
		const n = 1500
		for i := 1; i <= n; i += 100 {
			h.emit(i, i+99)
			time.Sleep(10 * time.Millisecond)
		}
		gaps, last := 0, 0
		for ev, err := range slow.Events() {
			if errors.As(err, new(*GapError)) {
				gaps++
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if ev.Data.Seq <= last || gaps == 0 && ev.Data.Seq != last+1 {
				t.Fatalf("%d after %d", ev.Data.Seq, last)
			}
			if last = ev.Data.Seq; last == n {
				break
			}
		}
		if gaps == 0 {
			t.Error("no gap was reported")
		}
	})
}

// POLL-9: a held poll of the real server answers as soon as there is something.
func TestRealLongPoll(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		h := newHouse(t, c, server.Options{NextPoll: time.Second})
		cl := h.connect(Options{Mode: "poll", LongPoll: 25 * time.Second})
		s := h.subscribe(cl, "even")
		time.Sleep(10 * time.Second)
		start := time.Now()
		h.emit(1, 2)
		s.want("e2")
		if d := time.Since(start); d > time.Second {
			t.Errorf("took %v", d)
		}
		s.Close()
		cl.Close()
	})
}
