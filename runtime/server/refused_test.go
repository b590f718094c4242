package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/cluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/streaming"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// state is all that the server keeps for callers, by what keeps it, in a form that can be compared.
func (w *world) state() map[string]string {
	w.t.Helper()
	s, all := w.Server, map[string]string{}
	put := func(what string, v any) { all[what] = fmt.Sprintf("%+v", v) }
	s.memoryUsage.mu.Lock()
	put("charged bytes", s.memoryUsage.by)
	put("charged bytes in all", s.memoryUsage.total)
	s.memoryUsage.mu.Unlock()
	put("memberships", s.members.Holding())
	leases := []string{}
	for _, l := range s.leases.All() {
		leases = append(leases, l.Subscription().ID)
	}
	slices.Sort(leases)
	put("leases", leases)
	put("streams", s.streams.Holding())
	s.mu.Lock()
	types := slices.Clone(s.order)
	s.mu.Unlock()
	for _, et := range types {
		put("feeds of "+et.name, et.feeds.Len())
		if et.topic != nil {
			h := et.topic.Holding()
			put("readers of "+et.name, h.Readers)
			put("prepared for "+et.name, h.Prepared)
		}
	}
	put("live", s.Subscriptions())
	h := s.live().Holding()
	put("webhooks", h.Live)
	put("locks of subscriptions", h.Locks)
	put("verifications", h.Verification)
	st := s.live().Store().(*cluster.Single).SubscriptionStore.(*failingStore).Store
	records, err := st.Subscriptions(context.Background(), "", 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range records {
		records[i].Revision = 0
	}
	put("records", records)
	for _, p := range []string{"alice", "bob"} {
		own, total, err := st.CountSubscriptions(context.Background(), p)
		if err != nil {
			w.t.Fatal(err)
		}
		put("quota of webhooks for "+p, own)
		put("quota of webhooks in all", total)
		own, total, err = st.CountVerifications(context.Background(), p)
		if err != nil {
			w.t.Fatal(err)
		}
		put("verified for "+p, own)
		put("verified in all", total)
	}
	return all
}

// same fails for what is not as it was.
func (w *world) same(after string, was map[string]string) {
	w.t.Helper()
	is := w.state()
	for _, what := range slices.Sorted(maps.Keys(was)) {
		if was[what] != is[what] {
			w.t.Errorf("after %s: %s: %s, was %s", after, what, is[what], was[what])
		}
	}
}

// A refusal is one way in which a call of any method is refused. Where members is set they are
// added to the params; the method's own are there already.
type refusalCase struct {
	name      string
	event     string // default e
	principal string // default bob
	arguments string // default none
	members   string // with a comma first
	fail      string // operation of the store
	cancelled bool
	only      string // methods, separated by blanks; default poll, stream and subscribe
	kind      wire.Kind
}

const allThree = wire.MethodPoll + " " + wire.MethodStream + " " + wire.MethodSubscribe

var refusals = []refusalCase{
	{name: "a member of a wrong type", members: `,"maxAgeMs":"x"`, kind: wire.InvalidParams},
	{name: "a cursor of a wrong type", members: `,"cursor":{}`, kind: wire.InvalidParams},
	{name: "a member twice", members: `,"name":"e"`, kind: wire.InvalidParams},
	{name: "maxEvents too small", members: `,"maxEvents":0`, only: wire.MethodPoll, kind: wire.InvalidParams},
	{name: "timeoutMs of a wrong type", members: `,"timeoutMs":"1"`, only: wire.MethodPoll, kind: wire.InvalidParams},
	{name: "params that end early", members: `,"x":[`, kind: wire.InvalidParams},
	{name: "an unknown event", event: "nope", kind: wire.NotFound},
	{name: "a hidden event", event: "hidden", kind: wire.NotFound},
	{name: "a closed event", event: "closed", kind: wire.Forbidden},
	{name: "a mode that is not offered", event: "pushonly", only: wire.MethodPoll + " " + wire.MethodSubscribe, kind: wire.Unsupported},
	{name: "a mode that is not offered", event: "pollonly", only: wire.MethodStream + " " + wire.MethodSubscribe, kind: wire.Unsupported},
	{name: "arguments of a wrong type", arguments: `[]`, kind: wire.InvalidParams},
	{name: "an unknown argument", arguments: `{"nope":1}`, kind: wire.InvalidParams},
	{name: "an argument outside its enum", arguments: `{"severity":"P9"}`, kind: wire.InvalidParams},
	{name: "an argument twice", arguments: `{"tag":"a","tag":"a"}`, kind: wire.InvalidParams},
	{name: "oversized arguments", arguments: `{"tag":"` + strings.Repeat("x", defaultMaxArguments) + `"}`, kind: wire.InvalidParams},
	{name: "nested arguments", arguments: `{"any":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, kind: wire.InvalidParams},
	{name: "an oversized pattern", arguments: `{"service":"` + strings.Repeat("*", topic.MaxPattern+1) + `"}`, kind: wire.InvalidParams},
	{name: "invalid UTF-8", arguments: "{\"tag\":\"\xff\"}", kind: wire.InvalidParams},
	{name: "an integer too large", arguments: `{"minLevel":9007199254740993}`, kind: wire.InvalidParams},
	{name: "AUTH-1 a refusal", principal: "forbidden", kind: wire.Forbidden},
	{name: "AUTH-1 a hook that fails", principal: "failing", kind: wire.Forbidden},
	{name: "AUTH-1 a hook that panics", principal: "panicking", kind: wire.Internal},
	{name: "SRV-3 a refusing OnSubscribe", principal: "unwanted", kind: wire.ResourceExhausted},
	{name: "SRV-3 a failing OnSubscribe", principal: "unlucky", kind: wire.Internal},
	{name: "SRV-3 a panicking OnSubscribe", principal: "panicking later", kind: wire.Internal},
	{name: "CAP-5 no memory left for the principal", principal: "greedy", only: wire.MethodPoll + " " + wire.MethodSubscribe, kind: wire.ResourceExhausted,
		arguments: `{"tag":"` + strings.Repeat("x", 40<<10) + `"}`},
	{name: "PUSH-10 no stream left for the principal", principal: "alice", only: wire.MethodStream, kind: wire.ResourceExhausted},
	{name: "SUB-8 no webhook left for the principal", principal: "alice", arguments: `{"tag":"other"}`, only: wire.MethodSubscribe, kind: wire.ResourceExhausted},
	{name: "a check that fails", event: "failing", only: wire.MethodStream + " " + wire.MethodSubscribe, kind: wire.UpstreamError},
	{name: "a check beside emits that fails", event: "failing.both", only: wire.MethodStream + " " + wire.MethodSubscribe, kind: wire.UpstreamError},
	{name: "a caller that has gone", principal: "slow", cancelled: true, kind: wire.Internal},
	{name: "a store without the verification", fail: "verification", only: wire.MethodSubscribe, kind: wire.Internal},
	{name: "a store that forgets the verification", fail: "put verification", only: wire.MethodSubscribe, kind: wire.Internal},
	{name: "a store without room", fail: "put", only: wire.MethodSubscribe, kind: wire.Internal},
	{name: "SUB-2 nobody", principal: "nobody", only: wire.MethodSubscribe, kind: wire.Forbidden},
	{name: "SUB-3 a blocked address", members: `,"delivery":{"mode":"webhook","url":"https://10.0.0.1/","secret":"` + secretA + `"}`, only: wire.MethodSubscribe, kind: wire.InvalidParams},
	{name: "SUB-3 a short secret", members: `,"delivery":{"mode":"webhook","url":"` + plain + `","secret":"whsec_AAAA"}`, only: wire.MethodSubscribe, kind: wire.InvalidParams},
	{name: "SUB-6 ttlMs of a wrong type", members: `,"ttlMs":"1"`, only: wire.MethodSubscribe, kind: wire.InvalidParams},
	{name: "VER-2 a failed challenge", members: `,"delivery":{"mode":"webhook","url":"http://receiver.test/deaf","secret":"` + secretA + `"}`, only: wire.MethodSubscribe, kind: wire.CallbackEndpointError},
	{name: "VER-2 a challenge that hangs", members: `,"delivery":{"mode":"webhook","url":"http://receiver.test/hangs","secret":"` + secretA + `"}`, only: wire.MethodSubscribe, kind: wire.CallbackEndpointError},
}

// calls makes the call in every method that it is for.
func (c *refusalCase) calls(w *world, f func(method string, rerr *jsonrpc.Error)) {
	event, principal, only := c.event, c.principal, c.only
	if event == "" {
		event = "e"
	}
	switch principal {
	case "":
		principal = "bob"
	case "nobody":
		principal = ""
	}
	if only == "" {
		only = allThree
	}
	for method := range strings.FieldsSeq(only) {
		p := fmt.Sprintf(`{"name":%q`, event)
		if c.arguments != "" {
			p += `,"arguments":` + c.arguments
		}
		if method == wire.MethodSubscribe && !strings.Contains(c.members, "delivery") {
			p += `,"delivery":{"mode":"webhook","url":"` + plain + `","secret":"` + secretB + `"}`
		}
		r := streamRequest(principal, p+c.members+"}")
		r.Method = method
		ctx := context.Background()
		if c.cancelled {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
		}
		var st *streaming.Stream
		var err error
		if method == wire.MethodStream {
			st, err = opened(w.inside().Open(ctx, r))
		} else {
			_, err = w.inside().Call(ctx, r)
		}
		if st != nil {
			st.Close()
		}
		f(method, asRPC(err))
	}
}

// refusing makes a server with one live subscription in each mode, of alice, and the hooks and types
// that refuse others.
func refusing(t *testing.T, f func(t *testing.T, w *world, st *failingStore, hooks *journal)) {
	st, hooks := &failingStore{Store: memory.New()}, &journal{}
	bubble(t, func(o *Options) {
		o.Store, o.MaxStreams = st, 1
		o.MemoryQuota.PerPrincipal = 32 << 10
		o.webhook().Quota.PerPrincipal = 1
		o.webhook().Verify.CacheFor = 10 * time.Minute
		o.Visible = func(_ context.Context, _, event string) bool { return event != "hidden" }
		o.Authorize = func(_ context.Context, principal, _ string, _ json.RawMessage) error {
			switch principal {
			case "forbidden":
				return events.Forbidden("")
			case "failing":
				return errTest
			case "panicking":
				panic("Authorize")
			}
			return nil
		}
	}, func(t *testing.T, w *world) {
		h := Hooks[filterArgs, incident]{
			OnSubscribe: func(ctx context.Context, s Subscription, _ *filterArgs) error {
				switch s.Principal {
				case "unwanted":
					return events.NewError(wire.ResourceExhausted, nil)
				case "unlucky":
					return errTest
				case "panicking later":
					panic("OnSubscribe")
				case "slow":
					<-ctx.Done()
					return ctx.Err()
				}
				hooks.add("on " + s.ID)
				return nil
			},
			OnUnsubscribe: func(_ context.Context, s Subscription, _ *filterArgs) { hooks.add("off " + s.ID) },
		}
		register(t, w.Server, "e", h, WithPollLease(24*time.Hour))
		register(t, w.Server, "hidden", h)
		register(t, w.Server, "closed", h)
		register(t, w.Server, "pollonly", h, WithoutWebhook(), WithoutPush())
		register(t, w.Server, "pushonly", h, WithoutWebhook(), WithoutPoll())
		fails := func(context.Context, filterArgs, string) (events.Page[incident], error) {
			return events.Page[incident]{}, errTest
		}
		if err := RegisterCheck(w.Server, incidentType("failing"), fails, h, WithPollLease(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := RegisterBoth(w.Server, incidentType("failing.both"), fails, h, WithPollLease(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Admin().Terminate(t.Context(), operator.Target{Event: "closed"}, events.Forbidden("closed")); err != nil {
			t.Fatal(err)
		}
		w.r.on(func(rw http.ResponseWriter, d *delivered) bool {
			switch {
			case strings.HasSuffix(d.url, "/deaf"):
				rw.WriteHeader(http.StatusNotFound)
				return true
			case strings.HasSuffix(d.url, "/hangs"):
				time.Sleep(30 * time.Second)
			}
			return false
		})
		pollAs(t, w.Server, "alice", `{"name":"e"}`)
		streamAs(t, w.Server, "alice", `{"name":"e"}`)
		w.subscribe("alice", params(plain, secretA, `,"ttlMs":3600000`))
		w.settle(time.Second)
		f(t, w, st, hooks)
	})
}

// TestRefusedLeavesNothing refuses calls of every method in every way: charges, quotas, slots,
// leases, memberships, feeds, readers, records, locks and goroutines are then as they were, and the
// subscriptions of somebody else notice nothing (ERR-2, POLL-1, POLL-8, PUSH-1, PUSH-10, SUB-2,
// SUB-3, SUB-8, VER-3, AUTH-1, CAP-5).
func TestRefusedLeavesNothing(t *testing.T) {
	refusing(t, func(t *testing.T, w *world, st *failingStore, hooks *journal) {
		was, goroutines := w.state(), runtime.NumGoroutine()
		first := len(hooks.lines())
		for _, c := range refusals {
			if c.fail != "" {
				st.fail.Store(&c.fail)
			}
			c.calls(w, func(method string, rerr *jsonrpc.Error) {
				st.fail.Store(nil)
				if rerr == nil || rerr.Code != wire.Sketch.Code(c.kind) {
					t.Errorf("%s of %s: %v, want %v", method, c.name, rerr, c.kind)
				}
				synctest.Wait()
				forget(t, st, c.principal, "bob")
				w.same(method+" of "+c.name, was)
				if c.fail != "" {
					st.fail.Store(&c.fail)
				}
			})
			st.fail.Store(nil)
		}
		// A poll whose check fails is no refusal: its lease stays, and lapses.
		for _, event := range []string{"failing", "failing.both"} {
			_, rerr := call(w.Server, "bob", wire.MethodPoll, `{"name":"`+event+`"}`)
			wantError(t, rerr, -32603, "*")
		}
		w.settle(3 * time.Minute) // idle connections are closed, too
		w.same("all", was)
		if n := runtime.NumGoroutine(); n > goroutines {
			t.Errorf("%d goroutines, were %d", n, goroutines)
		}
		open := map[string]int{}
		for _, line := range hooks.lines()[first:] {
			what, id, _ := strings.Cut(line, " ")
			open[id] += map[string]int{"on": 1, "off": -1}[what]
		}
		for id, n := range open {
			if n != 0 {
				t.Errorf("SRV-3: OnSubscribe of %s was called %d times more often than OnUnsubscribe", id, n)
			}
		}
	})
}

// forget takes away what a verified callback leaves on purpose: the next subscribe of the principal
// does not ask it again (VER-3).
func forget(t testing.TB, st *failingStore, principals ...string) {
	for _, p := range principals {
		if p == "alice" {
			continue // hers is in use
		}
		if err := st.DeleteVerification(t.Context(), p, plain); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefusedRefreshAndUnsubscribe refuses what concerns a live subscription: it stays as it was, to
// the last byte of its record, until its time is over, and then a refused call leaves nothing of it
// either (ERR-2, SUB-5, SUB-9, SUB-10, VER-3).
func TestRefusedRefreshAndUnsubscribe(t *testing.T) {
	refusing(t, func(t *testing.T, w *world, st *failingStore, hooks *journal) {
		was := w.state()
		refused := func(what, principal, method, params, fail string, kind wire.Kind) {
			t.Helper()
			if fail != "" {
				st.fail.Store(&fail)
			}
			_, rerr := call(w.Server, principal, method, params)
			st.fail.Store(nil)
			if rerr == nil || rerr.Code != wire.Sketch.Code(kind) {
				t.Errorf("%s: %v, want %v", what, rerr, kind)
			}
			synctest.Wait()
			w.same(what, was)
		}
		const sub, un = wire.MethodSubscribe, wire.MethodUnsubscribe
		key := `{"name":"e","delivery":{"url":"` + plain + `"}}`
		fresh := params(plain, secretB, "")
		refused("a refresh with a wrong secret", "alice", sub, params(plain, "whsec_AAAA", ""), "", wire.InvalidParams)
		refused("a refresh with a wrong ttlMs", "alice", sub, params(plain, secretB, `,"ttlMs":true`), "", wire.InvalidParams)
		refused("a refresh with a wrong cursor", "alice", sub, params(plain, secretB, `,"cursor":1`), "", wire.InvalidParams)
		for _, op := range []string{"get", "put", "verification"} {
			refused("a refresh over a store that fails to "+op, "alice", sub, fresh, op, wire.Internal)
		}
		refused("unsubscribe without a url", "alice", un, `{"name":"e"}`, "", wire.InvalidParams)
		refused("unsubscribe with wrong arguments", "alice", un, `{"name":"e","arguments":7,"delivery":{"url":"`+plain+`"}}`, "", wire.InvalidParams)
		refused("unsubscribe of another key", "alice", un, `{"name":"e","arguments":{"tag":"x"},"delivery":{"url":"`+plain+`"}}`, "", wire.NotFound)
		refused("unsubscribe by somebody else", "bob", un, key, "", wire.NotFound)
		refused("unsubscribe by nobody", "", un, key, "", wire.Forbidden)
		for _, op := range []string{"get", "delete"} {
			refused("unsubscribe over a store that fails to "+op, "alice", un, key, op, wire.Internal)
		}
		// The verification of a live subscription holds; without its record it is asked for anew.
		if err := st.DeleteVerification(t.Context(), "alice", plain); err != nil {
			t.Fatal(err)
		}
		was = w.state()
		w.r.on(refuseAll)
		refused("a refresh whose callback refuses", "alice", sub, fresh, "", wire.CallbackEndpointError)

		w.settle(time.Hour) // it expires
		w.settle(time.Minute)
		was = w.state()
		if was["webhooks"] != "[]" || was["records"] != "[]" {
			t.Errorf("after the expiry: %s %s", was["webhooks"], was["records"])
		}
		refused("a subscribe after the expiry", "alice", sub, fresh, "", wire.CallbackEndpointError)
		refused("an unsubscribe after the expiry", "alice", un, key, "", wire.NotFound)
	})
}

// TestRefusedAfterShutdown calls a server that has been shut down: nothing begins any more, also no
// lease, which nobody would end (SRV-6, SRV-3).
func TestRefusedAfterShutdown(t *testing.T) {
	refusing(t, func(t *testing.T, w *world, st *failingStore, hooks *journal) {
		if err := w.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		was, lines := w.state(), hooks.lines()
		for what, empty := range map[string]string{"charged bytes": "map[]", "memberships": "map[]", "streams": "{Open:0 Counted:0}"} {
			if was[what] != empty {
				t.Errorf("%s: %s", what, was[what])
			}
		}
		// Whose connection is still open may still call.
		c := refusalCase{name: "a server that is shut down", principal: "bob"}
		c.calls(w, func(method string, rerr *jsonrpc.Error) {
			wantError(t, rerr, -32603, `{"reason":"shutting_down"}`)
			forget(t, st, "bob")
			w.same(method, was)
		})
		on, off := 0, 0
		for _, line := range hooks.lines()[len(lines):] {
			if strings.HasPrefix(line, "on") {
				on++
			} else {
				off++
			}
		}
		if on != off {
			t.Errorf("OnSubscribe %d times, OnUnsubscribe %d", on, off)
		}
	})
}

// TestExpiredTokens opens streams whose token has expired, or expires: they get their final result
// and leave nothing (AUTH-4, PUSH-8).
func TestExpiredTokens(t *testing.T) {
	refusing(t, func(t *testing.T, w *world, st *failingStore, hooks *journal) {
		was := w.state()
		for _, rest := range []time.Duration{-time.Hour, 0, time.Nanosecond, time.Minute} {
			r := streamRequest("bob", `{"name":"e"}`)
			r.Expires = time.Now().Add(rest)
			s, err := opened(w.inside().Open(t.Context(), r))
			if err != nil {
				t.Fatal(err)
			}
			l := runStream(s)
			w.settle(max(rest, 0) + time.Second)
			select {
			case <-l.done:
			default:
				t.Fatalf("%s: the stream goes on", rest)
			}
			if l.err != nil || l.final == nil || slices.Contains(l.shorts(), "terminated") {
				t.Errorf("%s: %s %v %q", rest, l.final, l.err, l.shorts())
			}
			l.cancel()
			w.same(fmt.Sprint("a token that expires in ", rest), was)
		}
	})
}
