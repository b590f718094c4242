package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/streaming"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// ofSize are arguments of n bytes of JSON.
func ofSize(n int) string {
	const around = `{"prefix":""}`
	return `{"prefix":"` + strings.Repeat("p", n-len(around)) + `"}`
}

// CAP-5: arguments above the bound are refused by every method that takes some, with the member, the
// bound and the size, and nothing of them is kept.
func TestArgumentsAreBounded(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxArguments = 3000 }, func(t *testing.T, w *world) {
		s := w.Server
		calls := &journal{}
		register(t, s, "e", Hooks[filterArgs, incident]{OnSubscribe: func(_ context.Context, sub Subscription, _ *filterArgs) error {
			calls.add(sub.Mode)
			return nil
		}})
		ways := map[string]func(args string) error{
			"poll": func(args string) error {
				_, err := s.inside().Call(t.Context(), port.Request{Method: wire.MethodPoll, Principal: "ada", Params: json.RawMessage(`{"name":"e","arguments":` + args + `}`)})
				return err
			},
			"stream": func(args string) error {
				st, err := s.inside().Open(t.Context(), streamRequest("ada", `{"name":"e","arguments":`+args+`}`))
				if err == nil {
					st.Close()
				}
				return err
			},
			"subscribe": func(args string) error {
				_, err := s.inside().Call(t.Context(), port.Request{Method: wire.MethodSubscribe, Principal: "ada", Params: json.RawMessage(params(plain, secretA, `,"arguments":`+args))})
				return err
			},
			"follow": func(args string) error {
				f, err := s.inside().Follow(t.Context(), port.FollowRequest{Event: "e", Principal: "ada", Mode: "test", Arguments: json.RawMessage(args)})
				if err == nil {
					f.Close()
				}
				if err != nil {
					return s.rpcError(t.Context(), &port.Request{}, err)
				}
				return nil
			},
		}
		pattern := strings.Repeat("x", topic.MaxPattern+1)
		for _, tc := range []struct{ args, path, message string }{
			{ofSize(3001), "/arguments", "is 3001 bytes of JSON, at most 3000"},
			{`{"tag":"x"` + strings.Repeat(" ", 2990) + `}`, "/arguments", "is 3001 bytes of JSON, at most 3000"},
			{`{"any":[` + strings.Repeat(`"x",`, 740) + `"x","x"]}`, "", ""},
			{`{"minLevel":1e15,"any":[]}`, "", ""},
			// HOST-1: text that encodes a value is a string, and null is a value: only tools take them as agent hosts send them.
			{`{"minLevel":"3"}`, "/minLevel", "is string, want number"},
			{`{"any":"[\"x\"]"}`, "/any", "is string, want array"},
			{`{"redact":null}`, "/redact", "is null, want boolean"},
			{`{"service":"` + pattern + `"}`, "/service", "is a pattern of 1025 bytes, at most 1024"},
			{`{"service":"` + pattern[1:] + `"}`, "", ""},
			{ofSize(3000), "", ""},
		} {
			for way, f := range ways {
				err := f(tc.args)
				if tc.path == "" {
					if err != nil {
						t.Errorf("%s: %d bytes %.20s: %v", way, len(tc.args), tc.args, err)
					}
					continue
				}
				wantError(t, asRPC(err), -32602, fmt.Sprintf(`{"errors":[{"path":%q,"message":%q}]}`, tc.path, tc.message))
			}
		}
		// What was accepted is there; what was refused left nothing.
		if got := len(calls.lines()); got != 16 {
			t.Errorf("OnSubscribe called %d times: %q", got, calls.lines())
		}
		if n := len(s.leases.All()); n != 4 {
			t.Errorf("%d leases", n)
		}
		if n := len(s.live().Holding().Live); n != 4 {
			t.Errorf("%d webhook subscriptions", n)
		}
	})
}

// CAP-5: a number can be longer written out than as it came.
func TestArgumentsAreBoundedWrittenOut(t *testing.T) {
	s := newServer(t, Options{MaxArguments: 1000})
	type anything struct {
		Any any `json:"any"`
	}
	typ := events.Type[anything, incident]{Info: events.Info{Name: "e", PayloadSchema: json.RawMessage(incidentSchema),
		InputSchema: json.RawMessage(`{"type":"object","properties":{"any":{}}}`)}}
	if _, err := Register(s, typ, Hooks[anything, incident]{}); err != nil {
		t.Fatal(err)
	}
	args := `{"any":[1e15` + strings.Repeat(`,1e15`, 99) + `]}`
	_, err := call(s, "", wire.MethodPoll, `{"name":"e","arguments":`+args+`}`)
	wantError(t, err, -32602, `{"errors":[{"path":"/arguments","message":"is 1709 bytes of JSON when its numbers are written out, at most 1000"}]}`)
	if len(s.leases.All()) != 0 || s.memoryUsage.total != 0 {
		t.Error("something is left")
	}
}

// CAP-5: a record that was stored under a larger bound is taken up, delivered to and refreshed.
func TestStoredArgumentsAreExempt(t *testing.T) {
	bubble(t, func(o *Options) { durably(o); o.MaxArguments = 10_000 }, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		p := params(plain, secretA, `,"arguments":`+ofSize(9000)+`,"ttlMs":36000000`)
		s := w.subscribe("ada", p)
		w.restart(func(o *Options) { o.MaxArguments, o.MemoryQuota.PerPrincipal = 100, 50 })
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.settle(time.Second)
		id := strings.Repeat("p", 9000)
		if err := e.Emit(t.Context(), incident{ID: id}, events.WithID("x")); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Second)
		wantStrings(t, "delivered", w.r.shorts(), "x")
		if got := w.subscribe("ada", p); got.ID != s.ID || got.DeliveryStatus == nil {
			t.Errorf("the refresh gave %+v", got)
		}
		_, rerr := call(w.Server, "ada", wire.MethodSubscribe, params(plain, secretA, `,"arguments":`+ofSize(9001)))
		wantError(t, rerr, -32602, `{"errors":[{"path":"/arguments","message":"is 9001 bytes of JSON, at most 100"}]}`)
		if charged := w.memoryUsage.by["ada"]; charged < 9000 {
			t.Errorf("the restored subscription is charged %d bytes", charged)
		}
		w.unsubscribeWith("ada", plain, ofSize(9000))
		if w.memoryUsage.total != 0 {
			t.Errorf("%d bytes stay charged", w.memoryUsage.total)
		}
	})
}

func (w *world) unsubscribeWith(principal, url, args string) {
	w.t.Helper()
	if _, rerr := call(w.Server, principal, wire.MethodUnsubscribe, fmt.Sprintf(`{"name":"e","arguments":%s,"delivery":{"url":%q}}`, args, url)); rerr != nil {
		w.t.Fatal(rerr)
	}
}

// CAP-5: a principal's share is its own: who takes all of it locks out nobody else, and what is over
// is given back.
func TestMemoryShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{MemoryQuota: Quota{PerPrincipal: 20_000, Total: 100_000}})
		open := &journal{}
		register(t, s, "e", Hooks[filterArgs, incident]{
			OnSubscribe: func(_ context.Context, sub Subscription, _ *filterArgs) error {
				if sub.Principal == "refused" {
					return events.Forbidden("no")
				}
				open.add(sub.ID)
				return nil
			}})
		register(t, s, "hookless", Hooks[filterArgs, incident]{})
		pollOf := func(principal, event string, i int) error {
			_, err := s.inside().Call(context.Background(), port.Request{Method: wire.MethodPoll, Principal: principal,
				Params: json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":{"tag":"%s%d"}}`, event, strings.Repeat("t", 1000), i))})
			return err
		}
		fill := func(principal, event string) (n int, err error) {
			for n = range 1000 {
				if err := pollOf(principal, event, n); err != nil {
					return n, err
				}
			}
			return n, errors.New("no end")
		}
		n, err := fill("ada", "e")
		wantError(t, asRPC(err), -32013, `{"limit":"bytes","max":20000}`)
		if want := 20_000 / (768 + 1000); n < want-1 || n > want {
			t.Errorf("%d pollers", n)
		}
		if err := pollOf("ada", "e", 0); err != nil {
			t.Errorf("a poller that is known is refused: %v", err)
		}
		if err := pollOf("ben", "e", 0); err != nil {
			t.Errorf("another principal is refused: %v", err)
		}
		if err := pollOf("refused", "e", 0); err == nil {
			t.Error("OnSubscribe's refusal is lost")
		}
		if s.memoryUsage.by["refused"] != 0 {
			t.Error("a refused poller is charged")
		}
		// Those without a principal share a quarter of all. Where hooks hear of subscribers they are
		// refused, elsewhere nobody needs to remember them.
		n, err = fill("", "e")
		wantError(t, asRPC(err), -32013, `{"limit":"bytes","max":25000}`)
		if n < 12 {
			t.Errorf("%d pollers without a principal", n)
		}
		if err := pollOf("", "hookless", 0); err != nil {
			t.Errorf("a poller whom nobody needs to remember is refused: %v", err)
		}
		// The rest of the total.
		for i := 0; err == nil || i == 0; i++ {
			_, err = fill(fmt.Sprint("p", i), "hookless")
			if e := asRPC(err); e == nil || string(e.Data) != `{"limit":"bytes","max":20000}` {
				break
			}
			err = nil
		}
		wantError(t, asRPC(err), -32013, `{"limit":"bytes","max":100000}`)
		held := len(open.lines())
		time.Sleep(6 * time.Minute) // all leases lapse
		synctest.Wait()
		if s.memoryUsage.total != 0 || len(s.memoryUsage.by) != 0 {
			t.Errorf("%d bytes stay charged after %d leases", s.memoryUsage.total, held)
		}
		if err := pollOf("ada", "e", 0); err != nil {
			t.Error(err)
		}
		s.Revoke(t.Context(), "ada")
		if s.memoryUsage.total != 0 {
			t.Errorf("%d bytes stay charged after Revoke", s.memoryUsage.total)
		}
	})
}

// CAP-5: webhook subscriptions have the same budget, and whatever ends one gives its charge back.
func TestMemoryOfWebhooks(t *testing.T) {
	bubble(t, func(o *Options) { durably(o); o.MemoryQuota.PerPrincipal = 20_000 }, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		args := func(i int) string { return fmt.Sprintf(`{"prefix":"%s%d"}`, strings.Repeat("p", 2000), i) }
		sub := func(i int) error {
			_, err := w.inside().Call(t.Context(), port.Request{Method: wire.MethodSubscribe, Principal: "ada", Params: json.RawMessage(params(plain, secretA, `,"arguments":`+args(i)))})
			return err
		}
		n := 0
		var err error
		for ; n < 20 && err == nil; n++ {
			err = sub(n)
		}
		wantError(t, asRPC(err), -32013, `{"limit":"bytes","max":20000}`)
		if n < 4 || n > 8 || len(w.live().Holding().Live) != n-1 {
			t.Errorf("refused at %d, %d live", n, len(w.live().Holding().Live))
		}
		if got, _ := w.Admin().List(t.Context(), "", 100); len(got) != n-1 {
			t.Errorf("%d are stored", len(got))
		}
		if err := sub(0); err != nil {
			t.Errorf("a refresh is refused: %v", err)
		}
		before := w.memoryUsage.total
		w.unsubscribeWith("ada", plain, args(0))
		if err := sub(100); err != nil {
			t.Errorf("after an unsubscribe: %v", err)
		}
		if got := w.memoryUsage.total; got < before || got > before+10 {
			t.Errorf("%d bytes, before %d", got, before)
		}
		w.Revoke(t.Context(), "ada")
		w.settle(time.Second)
		if w.memoryUsage.total != 0 {
			t.Errorf("%d bytes stay charged after Revoke", w.memoryUsage.total)
		}
		if err := sub(1); err != nil {
			t.Error(err)
		}
		w.settle(24 * time.Hour)
		if w.memoryUsage.total != 0 {
			t.Errorf("%d bytes stay charged after the expiry", w.memoryUsage.total)
		}
	})
}

// heap is what is in use after a full collection.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// CAP-5: what is kept for one poller or subscription retains at most four times its JSON and 2 KiB,
// whatever the arguments are like and however large the author's struct for them becomes.
func TestRetainedArguments(t *testing.T) {
	type wide struct{ A, B, C, D, E, F, G, H *int }
	type args struct {
		List  []string  `json:"list,omitzero"`
		Deep  [][]int   `json:"deep,omitzero"`
		Wide  []wide    `json:"wide,omitzero"`
		Text  string    `json:"text,omitzero"`
		Glob  string    `json:"glob,omitzero"`
		Float []float64 `json:"float,omitzero"`
	}
	typ := events.Type[args, incident]{Info: events.Info{Name: "e", InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(incidentSchema),
		Match: []events.MatchRule{{Argument: "list", Path: "/tags", Op: events.MatchIn}, {Argument: "text", Path: "/id"}, {Argument: "glob", Path: "/service", Op: events.MatchGlob},
			{Argument: "deep", Path: "/x", Op: events.MatchIn}, {Argument: "float", Path: "/level", Op: events.MatchIn}}}}
	fill := func(element string, n int) string { return strings.Repeat(element+",", n/(len(element)+1)) + element }
	numbered := func(n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, `"%x",`, i)
		}
		return b.String() + `""`
	}
	var started sync.WaitGroup // the runtime keeps the descriptors of goroutines, so the first test would count them
	release := make(chan struct{})
	for range 400 {
		started.Go(func() { <-release })
	}
	close(release)
	started.Wait()
	for _, size := range []int{300, 8000} {
		for name, of := range map[string]string{
			"a list":     `"list":[` + numbered(size) + `]`,
			"nesting":    `"deep":[` + fill(`[]`, size) + `]`,
			"structs":    `"wide":[` + fill(`{}`, size) + `]`,
			"a text":     `"text":"` + strings.Repeat("x", size) + `"`,
			"a pattern":  `"glob":"` + strings.Repeat("?", min(size, topic.MaxPattern)) + `"`,
			"runs":       `"glob":"` + strings.Repeat("*?a", min(size, topic.MaxPattern)/3) + `*"`,
			"exponents":  `"float":[` + fill(`1e5`, size) + `]`,
			"everything": `"list":[` + numbered(size/3) + `],"text":"` + strings.Repeat("y", size/3) + `","wide":[` + fill(`{}`, size/3) + `]`,
		} {
			t.Run(fmt.Sprint(name, " of ", size), func(t *testing.T) {
				s := newServer(t, Options{MemoryQuota: Quota{PerPrincipal: -1}})
				if _, err := Register(s, typ, Hooks[args, incident]{Match: func(context.Context, *incident, *args) bool { return true },
					OnUnsubscribe: func(context.Context, Subscription, *args) {}}); err != nil {
					t.Fatal(err)
				}
				json := func(i int) string { return fmt.Sprintf(`{%s,"n":"%06d"}`, of, i) }
				allowed := 4*len(json(0)) + 2048
				n := min(200, 160_000/size)
				// The cache of what was seen last is bounded for itself.
				forget := func() { s.types["e"].current().Forget() }
				before := heap()
				for i := range n {
					pollAs(t, s, "ada", `{"name":"e","arguments":`+json(i)+`}`)
				}
				forget()
				each := (heap() - before) / n
				charged := s.memoryUsage.by["ada"] / n
				if each > allowed || each > charged+charged/3 {
					t.Errorf("a poller of %d bytes keeps %d, is charged %d", len(json(0)), each, charged)
				}
				s.leases.EndType(s.types["e"])
				forget()
				before = heap()
				var running sync.WaitGroup
				streams := make([]*streaming.Stream, n/2)
				for i := range streams {
					var err error
					if streams[i], err = opened(s.inside().Open(t.Context(), streamRequest("ada", `{"name":"e","arguments":`+json(n+i)+`}`))); err != nil {
						t.Fatal(err)
					}
					running.Go(func() { streams[i].Run(context.Background(), carrierFunc(func([]frame.Frame) error { return nil })) })
				}
				waitFor(t, func() bool { return s.types["e"].topic.Holding().Parked == len(streams) })
				forget()
				if each := (heap() - before) / len(streams); each > allowed {
					t.Errorf("a stream of %d bytes keeps %d, may keep %d", len(json(0)), each, allowed)
				}
				for _, st := range streams {
					st.End()
				}
				running.Wait()
			})
		}
	}
}
