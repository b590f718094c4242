package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const changingCaps = `{"extensions":{"io.modelcontextprotocol/events":{"listChanged":true}}}`

// published is a descriptor with a fingerprint.
func published(fingerprint string) wire.Descriptor {
	d := descriptor("tick", "poll", "push")
	d.Meta = map[string]any{wire.MetaFingerprint: fingerprint}
	return d
}

// A recorder counts catalogs and drifts.
type recorder struct {
	mu       sync.Mutex
	catalogs int
	drifts   []Drift
}

func (r *recorder) options() Options {
	return Options{
		OnCatalog: func([]Descriptor) { r.mu.Lock(); r.catalogs++; r.mu.Unlock() },
		OnDrift:   func(d Drift) { r.mu.Lock(); r.drifts = append(r.drifts, d); r.mu.Unlock() },
	}
}

func (r *recorder) seen() (int, []Drift) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.catalogs, slices.Clone(r.drifts)
}

// acknowledge plays a listen stream that serves the filter and sends list_changed when told.
func acknowledge(tell <-chan struct{}) func(st *fakeStream) (any, *jsonrpc.Error) {
	return func(st *fakeStream) (any, *jsonrpc.Error) {
		st.send(notificationListenAck, `{"notifications":{"eventsListChanged":true}}`)
		for {
			select {
			case <-tell:
				st.send(wire.NotificationListChanged, `{}`)
			case <-st.ctx.Done():
				return nil, nil
			}
		}
	}
}

// CLI-9, D8: list_changed refreshes the catalog, as a session notification before 2026-07-28 and on
// a listen request with the filter since; drift is reported once for each difference.
func TestCLI9ListChanged(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.caps = changingCaps
		tell := make(chan struct{})
		f.listen = acknowledge(tell)
		fingerprint := "aaaa"
		f.list = func() []wire.Descriptor { return []wire.Descriptor{published(fingerprint)} }
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); return hold(st) }
		var rec recorder
		cl := connect(t, f, c, rec.options())
		typ := Dynamic("tick")
		typ.Fingerprint = "aaaa"
		s, err := Subscribe(t.Context(), cl, typ, nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		change := func() {
			if c.legacy {
				f.notifyAll(wire.NotificationListChanged)
			} else {
				tell <- struct{}{}
			}
			synctest.Wait()
		}
		if n, drifts := rec.seen(); n != 0 || drifts != nil {
			t.Errorf("before: %d, %v", n, drifts)
		}
		for i, fp := range []string{"aaaa", "bbbb", "bbbb", "aaaa", "bbbb"} {
			fingerprint = fp
			change()
			time.Sleep(minRelistInterval)
			synctest.Wait()
			if n, _ := rec.seen(); n != i+1 {
				t.Errorf("change %d: %d catalogs", i+1, n)
			}
			if got := s.Subscription().Status().Drift; (got != nil) != (fp != "aaaa") {
				t.Errorf("change %d: drift %v", i+1, got)
			}
		}
		want := Drift{Event: "tick", Generated: "aaaa", Published: "bbbb"}
		if _, drifts := rec.seen(); !slices.Equal(drifts, []Drift{want, want}) {
			t.Errorf("drifts %v", drifts)
		}
		n, _ := rec.seen()
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if after, _ := rec.seen(); after != n {
			t.Error("the list is read although the server notifies")
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if after, _ := rec.seen(); after != n+1 {
			t.Errorf("the list was read %d times in 40 minutes: what the server tells may be lost", after-n)
		}
		if listens := f.sent(methodListen); c.legacy && len(listens) != 0 || !c.legacy && len(listens) != 1 {
			t.Errorf("%d listen requests", len(listens))
		} else if !c.legacy {
			var p struct {
				Notifications json.RawMessage            `json:"notifications"`
				Meta          map[string]json.RawMessage `json:"_meta"`
			}
			json.Unmarshal(listens[0].Params, &p)
			if string(p.Notifications) != `{"eventsListChanged":true}` || len(p.Meta) != 3 {
				t.Errorf("listen params %s", listens[0].Params)
			}
		}
	})
}

// CLI-9: a listen stream that ends is opened again, and what may have been missed is read.
func TestCLI9ListenAgain(t *testing.T) {
	for _, c := range []carrier{carriers[1], carriers[3]} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(false)
			f.caps = changingCaps
			f.listen = func(st *fakeStream) (any, *jsonrpc.Error) {
				st.send(notificationListenAck, `{"notifications":{"eventsListChanged":true}}`)
				if len(f.sent(methodListen)) == 1 {
					time.Sleep(time.Minute)
					return empty, nil
				}
				return hold(st)
			}
			var rec recorder
			connect(t, f, c, rec.options())
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if n, _ := rec.seen(); n != 1 || len(f.sent(methodListen)) != 2 {
				t.Errorf("%d catalogs, %d listens", n, len(f.sent(methodListen)))
			}
		})
	}
}

// CLI-9: without list_changed, or when the server does not serve the filter, the list is read
// again by time, as long as anybody is subscribed.
func TestCLI9Relist(t *testing.T) {
	unserved := map[string]func(st *fakeStream) (any, *jsonrpc.Error){
		"ends at once": func(st *fakeStream) (any, *jsonrpc.Error) {
			st.send(notificationListenAck, `{"notifications":{}}`)
			return empty, nil
		},
		"other kinds only": func(st *fakeStream) (any, *jsonrpc.Error) {
			st.send(notificationListenAck, `{"notifications":{"toolsListChanged":true}}`)
			return hold(st)
		},
		"unknown method": func(st *fakeStream) (any, *jsonrpc.Error) {
			return nil, &jsonrpc.Error{Code: -32601, Message: "Method not found"}
		},
		"no answer": hold,
	}
	for name, listen := range unserved {
		for _, caps := range []string{bothCaps, changingCaps} {
			eachCarrier(t, func(t *testing.T, c carrier) {
				if c.legacy && caps == changingCaps {
					return
				}
				f := newFake(c.legacy)
				f.caps = caps
				f.listen = listen
				f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); return hold(st) }
				var rec recorder
				o := rec.options()
				o.Heartbeat = time.Hour
				cl := connect(t, f, c, o)
				time.Sleep(30 * time.Minute)
				if n, _ := rec.seen(); n != 0 {
					t.Errorf("%s: read %d times with nobody subscribed", name, n)
				}
				s := subscribe(t, cl)
				time.Sleep(29 * time.Minute)
				synctest.Wait()
				if n, _ := rec.seen(); n != 5 && n != 6 {
					t.Errorf("%s, %s: read %d times in 29 minutes", name, caps, n)
				}
				if n := len(f.sent(methodListen)); caps == bothCaps && n != 0 || caps == changingCaps && n != 1 {
					t.Errorf("%s: %d listen requests", name, n)
				}
				s.Close()
			})
		}
	}
}

// CLI-9: the fingerprint of a server that publishes none is computed from its schemas.
func TestCLI9ComputedDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(false)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); return hold(st) }
		var rec recorder
		cl := connect(t, f, carriers[1], rec.options())
		for _, generated := range []string{"", "aaaa"} {
			typ := Dynamic("tick")
			typ.Fingerprint = generated
			if generated == "" {
				// The same schemas, written in another way.
				fp, err := wire.Fingerprint(json.RawMessage(`{ "type" : "object" }`), json.RawMessage(`{"type":"object"}`))
				if err != nil {
					t.Fatal(err)
				}
				typ.Fingerprint = fp
			}
			s, err := Subscribe(t.Context(), cl, typ, nil)
			if err != nil {
				t.Fatal(err)
			}
			if drift := s.Subscription().Status().Drift; (drift != nil) != (generated != "") {
				t.Errorf("%q: drift %v", generated, drift)
			}
		}
	})
}

// CLI-9: an occurrence that carries another fingerprint is drift too.
func TestCLI9OccurrenceDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(false)
		f.list = func() []wire.Descriptor { return []wire.Descriptor{published("aaaa")} }
		f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
			return json.RawMessage(`{"events":[{"eventId":"e1","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{},"_meta":{"io.github.mcpe-gen/fingerprint":"bbbb"}}],"cursor":"c1","hasMore":false}`), nil
		}
		var rec recorder
		typ := Dynamic("tick")
		typ.Fingerprint = "aaaa"
		if _, err := Subscribe(t.Context(), connect(t, f, carriers[3], rec.options()), typ, nil, WithMode("poll")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, drifts := rec.seen(); !slices.Equal(drifts, []Drift{{"tick", "aaaa", "bbbb"}}) {
			t.Errorf("drifts %v", drifts)
		}
	})
}

// LIST-1: all pages are read, in order; a list without end is an error.
func TestListPages(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.list = func() []wire.Descriptor { return nil }
		cl := connect(t, f, c, Options{})
		pages := map[string]string{"": "p1", "p1": "p2", "p2": ""}
		f.override = func(m *jsonrpc.Request) any {
			var p wire.ListParams
			json.Unmarshal(m.Params, &p)
			return wire.ListResult{Events: []wire.Descriptor{descriptor("from-"+p.Cursor, "push")}, NextCursor: pages[p.Cursor]}
		}
		list, err := cl.List(t.Context())
		if err != nil || len(list) != 3 || list[2].Name != "from-p2" {
			t.Errorf("%v, %v", list, err)
		}
		pages["p2"] = "p1"
		if _, err := cl.List(t.Context()); err == nil {
			t.Error("a list that never ends")
		}
	})
}

// CLI-8: the registry shows what is live; End ends one, Close all at once, and both are final.
func TestCLI8Registry(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); return hold(st) }
		f.poll = func(wire.PollParams) (any, *jsonrpc.Error) { return polled("c", false, 1e6), nil }
		cl := connect(t, f, c, Options{})
		const n = 12
		ended := make(chan error, n)
		for i := range n {
			mode := []string{"push", "poll"}[i%2]
			s, err := Subscribe(t.Context(), cl, Dynamic("tick"), json.RawMessage(fmt.Sprintf(`{"i":%d}`, i)), WithMode(mode))
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for _, err := range s.Events() {
					ended <- err
				}
			}()
		}
		all := cl.Subscriptions()
		if len(all) != n {
			t.Fatalf("%d in the registry", len(all))
		}
		for i, st := range all {
			if st.ID != fmt.Sprint(i+1) || st.Event != "tick" || string(st.Arguments) != fmt.Sprintf(`{"i":%d}`, i) || st.Mode == "" || st.CursorKey != "" || st.Since.IsZero() {
				t.Errorf("%d: %+v", i, st)
			}
		}
		if !cl.End("3") || cl.End("3") || len(cl.Subscriptions()) != n-1 {
			t.Error("End")
		}
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		start := time.Now()
		cl.Close()
		for range n - 1 {
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("Close took %v", d)
		}
		synctest.Wait()
		if f.streams() != 0 || len(cl.Subscriptions()) != 0 {
			t.Error("something lives on")
		}
		if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if _, err := cl.List(t.Context()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		cl.Close()
	})
}
