package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// REP-6: processes share the shards of an event type, each duty has one owner, and the shards of a process that has
// gone pass to the others after its lease, or immediately after a shutdown.
func TestREP6ProcessesShareTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := join(t, c.Open(), nil), join(t, c.Open(), nil)
		a.register("e", "string")
		b.register("e", "string")
		a.add("poll only", eventtypetest.Options{Fingerprint: "string", Unhooked: true})
		a.want("nothing waits to be restored", "restored e", "restored poll only")
		settle(10 * time.Second)
		if n := a.owns("poll only"); n != 0 {
			t.Errorf("%d shards of a type without webhooks", n)
		}
		left := b.owns("e")
		if a.owns("e")+left != Shards || a.owns("e") < Shards/2-2 || left < Shards/2-2 {
			t.Errorf("%d and %d shards", a.owns("e"), left)
		}
		for _, duty := range []string{engine.OutboxTopic, engine.RetentionTopic} {
			if a.owns(duty)+b.owns(duty) != 1 {
				t.Errorf("%s is owned %d times", duty, a.owns(duty)+b.owns(duty))
			}
		}
		if n := a.webhooks.Settled("e"); n != a.owns("e") {
			t.Errorf("%d shards are delivered to, owned are %d", n, a.owns("e"))
		}
		a.Processes.(*Many).Crash()
		settle(time.Second)
		if fence, owned, ok := a.Status(); fence != 0 || len(owned) != 0 || !ok || b.owns("e") != left {
			t.Errorf("after a crash: %v %v %v, the other one owns %d", fence, owned, ok, b.owns("e"))
		}
		settle(2 * defaultLease)
		if b.owns("e") != Shards || b.owns(engine.OutboxTopic) != 1 {
			t.Errorf("after its lease the other one owns %d", b.owns("e"))
		}
		d := join(t, c.Open(), nil)
		d.register("e", "string")
		settle(10 * time.Second)
		must(t, b.Shutdown(t.Context()))
		settle(2 * time.Second) // less than a lease
		if d.owns("e") != Shards {
			t.Errorf("after a shutdown the next one owns %d", d.owns("e"))
		}
	})
}

// REP-6: Join returns an error with the reason if it cannot join.
func TestREP6Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memcluster.New().Open()
		for op, want := range map[string]string{"Now": "reading the store's clock: ", "OpenLog": "opening the control log: "} {
			failing(st, op)
			p, err := start(t, st, nil)
			if err == nil {
				err = p.Join(p.webhooks)
				p.end()
			}
			if !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s fails: %v", op, err)
			}
		}
		st.Inject(memcluster.Faults{})
		p, err := start(t, st, func(o *Options) { o.Lease = time.Second - 1 })
		must(t, err)
		if err := p.Join(p.webhooks); err == nil || err.Error() != "replicas.Options.Lease is 999.999999ms, must be at least 1s" {
			t.Error(err)
		}
		must(t, p.webhooks.Shutdown(t.Context()))
	})
}

// REP-13: orders reach all other processes, also from a process that only emits, which follows and owns nothing.
func TestREP13Orders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := join(t, c.Open(), nil), join(t, c.Open(), nil)
		emitting := join(t, c.Open(), func(o *Options) { o.EmitOnly = true })
		must(t, a.Tell(t.Context(), orders.Order{Kind: orders.Revoke, Principal: "ann"}))
		must(t, emitting.Ask(t.Context(), orders.Order{Kind: orders.Revoke, Principal: "bob"}))
		b.want("the others", "do revoke ann", "do revoke bob")
		a.want("who told", "do revoke bob")
		emitting.Hurry()
		emitting.RecallLater("e")
		emitting.want("who only emits")
		if _, _, ok := emitting.Status(); ok {
			t.Error("it has a lease")
		}
		must(t, a.CloseType(t.Context(), "e", &eventtype.Closing{Err: events.Forbidden("closed")}))
		for _, p := range []*process{a, b, emitting} {
			if e, err := p.ClosedType(t.Context(), "e"); err != nil || e == nil || string(e.Err.Data) != `{"reason":"closed"}` {
				t.Errorf("%v %v", e, err)
			}
		}
		b.RecallLater("e")
		b.want("looked at again", "recall e")
	})
}

// REP-11: the others learn of a changed record by its shard. Changes of unknown shards are announced at a bounded
// rate.
func TestREP11Changed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := join(t, c.Open(), nil), join(t, c.Open(), nil)
		_, of, err := a.Records(t.Context())
		must(t, err)
		must(t, of.Tell(t.Context(), "sub_1", engine.Shard{Topic: "e", Number: 3}))
		must(t, of.Tell(t.Context(), "sub_2", engine.Shard{}))
		b.want("told", fmt.Sprintf("changed sub_1 of %v", engine.Shard{Topic: "e", Number: 3}), fmt.Sprintf("changed sub_2 of %v", engine.Shard{}))
		began := time.Now()
		for range unknownBurst + unknownRate {
			must(t, of.Tell(t.Context(), "sub_2", engine.Shard{}))
		}
		if d := time.Since(began); d < 900*time.Millisecond || d > 2*time.Second {
			t.Errorf("told within %v", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := of.Tell(ctx, "sub_2", engine.Shard{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// REP-11: a process that cannot read the control log does not count as one that knows the recent actions of the others.
func TestREP11Deaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memcluster.New().Open()
		p := join(t, st, nil)
		settle(time.Second)
		if !p.Heard() {
			t.Error("a process that reads the control log counts as deaf")
		}
		st.Inject(memcluster.Faults{Fail: func(op string) error {
			if strings.HasSuffix(op, engine.ControlLog) {
				return errTest
			}
			return nil
		}})
		settle(10 * time.Second)
		if p.Heard() {
			t.Error("a deaf process counts as one that has heard")
		}
	})
}

// A drifting store has a time that drifts from that of its processes.
type drifting struct {
	*memcluster.Store
	by   atomic.Int64
	asks atomic.Int64
	err  atomic.Pointer[error]
}

func (s *drifting) Now(ctx context.Context) (time.Time, error) {
	s.asks.Add(1)
	if err := s.err.Load(); err != nil {
		return time.Time{}, *err
	}
	now, err := s.Store.Now(ctx)
	return now.Add(time.Duration(s.by.Load())), err
}

// REP-8: the time comes from the store, and is queried if the last result is old; if the query fails, the old result
// stays in use.
func TestREP8Clock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &drifting{Store: memcluster.New().Open()}
		st.by.Store(int64(time.Hour))
		p := join(t, st, func(o *Options) { o.EmitOnly = true })
		off := func(what string, want time.Duration) {
			t.Helper()
			if got := time.Until(p.Now()).Round(time.Second); got != want {
				t.Errorf("%s: it is %v off, want %v", what, got, want)
			}
		}
		off("at the start", time.Hour)
		st.by.Store(int64(2 * time.Hour))
		p.Refresh(t.Context())
		off("a new answer", time.Hour)
		settle(maxClockAge + time.Second)
		off("an old answer", time.Hour)
		st.err.Store(&errTest)
		p.Refresh(t.Context())
		off("nobody answers", time.Hour)
		st.err.Store(nil)
		p.Refresh(t.Context())
		off("asked again", 2*time.Hour)
		if n := st.asks.Load(); n != 3 {
			t.Errorf("asked %d times", n)
		}
	})
}

// REP-8: a process with a lease learns the time from renewals.
func TestREP8ClockOfAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &drifting{Store: memcluster.New().Open()}
		st.by.Store(int64(time.Hour))
		p := join(t, st, nil)
		settle(10 * time.Second)
		if d := time.Until(p.Now()).Round(time.Second); d != 0 {
			t.Errorf("its renewals tell a time that is %v off", d)
		}
		settle(2 * maxClockAge)
		looks := st.asks.Load()
		p.Refresh(t.Context())
		if st.asks.Load() != looks {
			t.Error("it asks although it renews")
		}
	})
}

// REP-19: waiting readers learn of a new epoch in a process that appends nothing. A store that is away is logged
// once.
func TestREP19NewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		st := c.Open()
		a := join(t, st, nil)
		join(t, c.Open(), nil).register("e", "string")
		e := a.register("e", "string")
		settle(5 * time.Second)
		epoch := e.Topic().Epoch()
		must(t, c.BeginEpoch(0))
		settle(5 * time.Second)
		if e.Topic().Epoch() == epoch {
			t.Error("it has not heard of the new epoch")
		}
		if got := a.log(); strings.Count(got, "the store has begun a new generation") != 1 || strings.Contains(got, "has died") {
			t.Errorf("logged: %s", got)
		}
		st.Inject(memcluster.Faults{Fail: func(string) error { return errTest }})
		must(t, c.BeginEpoch(0))
		settle(10 * time.Second)
		st.Inject(memcluster.Faults{})
		settle(10 * time.Second)
		if n := strings.Count(a.log(), "looking at the logs"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

// emitted is an occurrence of an author's transaction.
type emitted store.Outgoing

func (e emitted) Outgoing() store.Outgoing { return store.Outgoing(e) }

// REP-20, REP-16: an occurrence from the outbox is moved if Emit would append it, if other processes serve its type,
// or if it is valid under the schemas of another build. Others are set aside, counted and logged with the reason.
func TestREP20Judged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memcluster.New().Open()
		p := join(t, st, nil)
		e := p.register("e", "string")
		gone := p.register("gone", "string")
		gone.Remove()
		must(t, st.AddSchema(t.Context(), "e", engine.SchemaVersion{Fingerprint: "broken", PayloadSchema: json.RawMessage(`{"type":7}`)}, 0))
		must(t, st.AddSchema(t.Context(), "e", version("number"), 1))
		must(t, st.AddSchema(t.Context(), "e", version("string"), 2))
		settle(5 * time.Second)
		id := 0
		send := func(log, data string, refuse error) {
			t.Helper()
			id++
			p.mu.Lock()
			p.refuse = refuse
			p.mu.Unlock()
			tx := st.Begin()
			must(t, tx.Emit(emitted{Log: log, Entry: store.Entry{EventID: fmt.Sprint(id), Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(data)}}))
			must(t, tx.Commit())
			settle(5 * time.Second)
		}
		send("e", `{"x":"a"}`, nil)
		send("gone", `{"x":"a"}`, errTest) // the process that serves it checks it
		wrong := fmt.Errorf("%w: no", events.ErrInvalidPayload)
		send("e", `{"x":1}`, wrong) // valid in the other build
		if e.Topic().Head() != 2 || gone.Topic().Head() != 1 {
			t.Errorf("%d and %d are moved", e.Topic().Head(), gone.Topic().Head())
		}
		send("e", `{"x":true}`, wrong)
		send("e", `{"x":"a"}`, wrong) // its own schemas do not count
		send("e", `{"x":1}`, fmt.Errorf("%w: large", events.ErrTooLarge))
		send("e", `[]`, nil)
		send("/control", `{}`, nil)
		found, err := st.Rejected(t.Context(), 0, 10)
		must(t, err)
		want := []string{"no", "no", "large", "data is not a JSON object", "/control"}
		if len(found) != len(want) || p.rejected != len(want) {
			t.Fatalf("%+v, counted %d", found, p.rejected)
		}
		for i, r := range found {
			if !strings.Contains(r.Reason, want[i]) {
				t.Errorf("%+v, want %s", r, want[i])
			}
		}
		failing(st, "History")
		send("e", `{"x":1}`, wrong)
		if e.Topic().Head() != 2 || p.rejected != len(want) {
			t.Error("it is judged although the history cannot be read")
		}
		st.Inject(memcluster.Faults{})
		settle(5 * time.Second)
		if e.Topic().Head() != 3 {
			t.Error("it is not looked at again")
		}
	})
}

// REP-16: a subscription whose schemas have changed incompatibly ends when no process has had them, or any version in
// between, for some time.
func TestREP16Obsolete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		st := c.Open()
		for i, f := range []string{"boolean", "number", "string", "array"} {
			must(t, st.AddSchema(t.Context(), "e", version(f), i))
		}
		const after = time.Minute
		p := join(t, st, func(o *Options) { o.Lease = after })
		p.register("e", "string")
		ends := func(event, schema string) string {
			t.Helper()
			_, of, err := p.Records(t.Context())
			must(t, err)
			if e := of.Obsolete(eventtypetest.New(t, event, eventtypetest.Options{}), schema, false); e != nil {
				return string(e.Data)
			}
			return ""
		}
		check := func(what string, want ...string) {
			t.Helper()
			const ended = `{"feature":"payloadSchema","reason":"schema_changed"}`
			for _, schema := range []string{"", "unknown", "string", "array", "number", "boolean"} {
				got := ends("e", schema)
				if is := strings.Contains(strings.Join(want, " "), schema) && schema != ""; is != (got != "") {
					t.Errorf("%s: %s ends with %q", what, schema, got)
				} else if is && got != ended {
					t.Errorf("%s: %s ends with %s, want %s", what, schema, got, ended)
				}
			}
		}
		check("nothing is known of the others yet")
		settle(after)
		check("nobody has them", "number", "boolean")
		other := join(t, c.Open(), nil)
		other.register("e", "number")
		settle(5 * time.Second)
		check("another process has the newer one: it reads those of the older one")
		other.Processes.(*Many).Crash()
		settle(after / 2)
		check("it may be restarted")
		settle(after)
		check("it was not", "number", "boolean")
		own := p.register("g", "number")
		for i, f := range []string{"number", "string"} {
			must(t, st.AddSchema(t.Context(), "g", version(f), i))
		}
		settle(5 * time.Second)
		own.Reprint("string")
		if got := ends("g", "number"); got == "" {
			t.Error("what only this process had before goes on")
		}
		if got := ends("unknown", "number"); got != "" {
			t.Errorf("a type that is not registered: %s", got)
		}
		p.register("f", "string")
		failing(st, "History")
		if got := ends("f", "number"); got != "" {
			t.Errorf("a history that cannot be read: %s", got)
		}
		if got := p.log(); !strings.Contains(got, "reading the history of schemas of f") {
			t.Errorf("logged: %s", got)
		}
	})
}

// REP-16: each process knows which replicas serve schemas that are incompatible, however many versions there are.
func TestREP16Conflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		st := c.Open()
		for _, event := range []string{"e", "same"} {
			for i, f := range []string{"boolean", "string", "number"} {
				must(t, st.AddSchema(t.Context(), event, version(f), i))
			}
		}
		serve := func(name, fingerprint string) *process {
			p := join(t, c.Open(), func(o *Options) { o.Name = name })
			p.register("e", fingerprint)
			p.register("same", "string")
			p.register("new", fingerprint) // not in the history
			settle(5 * time.Second)
			return p
		}
		check := func(p *process, want ...operator.SchemaConflict) {
			t.Helper()
			of, err := st.Cluster(t.Context())
			must(t, err)
			if got, err := p.Conflicts(of); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		a, _ := serve("a", "string"), serve("b", "string")
		check(a)
		newer := serve("c", "number")
		conflict := operator.SchemaConflict{Event: "e", Change: "payloadSchema/properties/x: was string and may now be number", Older: []string{"a", "b"}, Newer: []string{"c"}}
		for _, p := range []*process{a, newer, newer} {
			check(p, conflict)
		}
		fresh := join(t, st, nil)
		failing(st, "History")
		of, err := st.Cluster(t.Context())
		must(t, err)
		if _, err := fresh.Conflicts(of); !errors.Is(err, errTest) {
			t.Errorf("a history that cannot be read: %v", err)
		}
		st.Inject(memcluster.Faults{})
		must(t, newer.Shutdown(t.Context()))
		check(a)
	})
}

// The only process that serves its store owns everything from the start, and sends no messages.
func TestOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := join(t, memory.New(), nil)
		p.register("e", "string")
		p.want("at once", "restored e")
		if p.webhooks.Settled("e") != 1 {
			t.Error("its shard is not delivered to")
		}
		p.Hurry()
		p.Refresh(t.Context())
		p.RecallLater("e")
		must(t, p.Tell(t.Context(), orders.Order{}))
		if err := p.Ask(t.Context(), orders.Order{}); !errors.Is(err, events.ErrNotFound) {
			t.Error(err)
		}
		for _, c := range []*eventtype.Closing{nil, {Err: events.Forbidden("no")}, nil} {
			must(t, p.CloseType(t.Context(), "e", c))
			if got, err := p.ClosedType(t.Context(), "e"); got != c || err != nil {
				t.Errorf("%+v, %v", got, err)
			}
		}
		if _, _, ok := p.Status(); ok || !p.Now().Equal(time.Now()) {
			t.Error("it has a lease, or another time")
		}
		_, of, err := p.Records(t.Context())
		must(t, err)
		must(t, of.Tell(t.Context(), "sub_1", engine.Shard{Topic: "e"}))
	})
}

// EVOL-1: a stored subscription ends if its event type is not registered in time.
func TestEVOL1Orphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		for _, event := range []string{"e", "gone"} {
			_, err := st.PutSubscription(t.Context(), stored(event, "ann"))
			must(t, err)
		}
		has := func(want int) {
			t.Helper()
			if all, err := st.Subscriptions(t.Context(), "", 10); err != nil || len(all) != want {
				t.Errorf("%+v %v, want %d", all, err, want)
			}
		}
		gone := join(t, st, nil)
		must(t, gone.Shutdown(t.Context()))
		settle(2 * orphanTime)
		has(2) // its process had ended
		p := join(t, st, nil)
		p.register("e", "string")
		settle(orphanTime - time.Second)
		has(2)
		settle(time.Minute)
		if all, err := st.Subscriptions(t.Context(), "", 10); err != nil || len(all) != 1 || all[0].Event != "e" {
			t.Errorf("%+v %v", all, err)
		}
		if got := p.log(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "event=gone subscriptions=1 ") {
			t.Errorf("logged: %s", got)
		}
	})
}

// EVOL-1: one warning counts the subscriptions of all shards that end because no process registers their event type.
func TestEVOL1OrphansAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memcluster.New().Open()
		_, err := st.Establish(t.Context(), "gone", Shards)
		must(t, err)
		for i := range 20 {
			_, err := st.Admit(t.Context(), stored("gone", fmt.Sprint("user", i)), engine.Quota{})
			must(t, err)
		}
		p := join(t, st, nil)
		p.register("e", "string")
		settle(2 * orphanTime)
		if all, err := st.Subscriptions(t.Context(), "", 100); err != nil || len(all) != 0 {
			t.Errorf("%d are left, %v", len(all), err)
		}
		if got := p.log(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `event=gone subscriptions=20 reason="NotFound`) {
			t.Errorf("logged: %s", got)
		}
	})
}

// stored returns the record of a principal's subscription.
func stored(event, principal string) store.Subscription {
	const url = "https://receiver.test/"
	return store.Subscription{ID: wire.SubscriptionID(wire.ModeWebhook, principal, url, event, []byte("{}")), Principal: principal, Event: event, URL: url,
		Arguments: json.RawMessage("{}"), Schema: "string", Generation: 1, Secrets: []store.Secret{{Key: make([]byte, 32)}}}
}

// A store without subscriptions cannot have webhooks; an unreadable one returns an error.
func TestOneRefused(t *testing.T) {
	if _, err := start(t, struct{ store.Store }{memory.New()}, nil); err == nil || !strings.Contains(err.Error(), "does not store subscriptions") {
		t.Error(err)
	}
	if _, err := start(t, unreadable{memory.New()}, nil); !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), "webhooks: reading the stored subscriptions: ") {
		t.Error(err)
	}
	p, err := New(t.Context(), Options{Store: memory.New()})
	must(t, err)
	must(t, p.Join(nil)) // without webhooks
	must(t, p.Shutdown(t.Context()))
}

type unreadable struct{ *memory.Store }

func (unreadable) Subscriptions(context.Context, string, int) ([]store.Subscription, error) {
	return nil, errTest
}
