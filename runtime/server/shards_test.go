package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A fleet are servers with webhooks on one database, and the receiver of what they deliver.
type fleet struct {
	t       testing.TB
	schema  string
	store   postgres.Options
	options Options
	hooks   Hooks[filterArgs, incident]
	payload string // the payloadSchema of who joins; "" for the usual one, "none" for no type at all
	input   string // its inputSchema
	r       *receiver

	mu      sync.Mutex
	members []*sailor
	n       int
}

// A sailor is one of them.
type sailor struct {
	member
	emitter *Emitter[incident]
	name    string
	gone    bool
}

func newFleet(t testing.TB, n int, change func(*fleet)) *fleet {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		t.Parallel() // they wait most of the time
	}
	f := &fleet{t: t, schema: pgtest.Schema(t)}
	f.r, f.options = newReceiver(t)
	f.options.Replica.Lease = 3 * time.Second
	if testing.Verbose() {
		f.options.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if change != nil {
		change(f)
	}
	for range n {
		f.join()
	}
	return f
}

func (f *fleet) join() *sailor {
	f.t.Helper()
	o := f.options
	f.n++
	o.Replica.Name = fmt.Sprint("r", f.n)
	m := &sailor{member: newMember(f.t, f.schema, f.store, o), name: o.Replica.Name}
	m.emitter = f.register(m.Server, f.payload)
	f.t.Cleanup(func() { m.report(f.t) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = append(f.members, m)
	return m
}

// report says after a failure what the server delivers to, and what has come of it.
func (m *sailor) report(t testing.TB) {
	if !t.Failed() {
		return
	}
	t.Logf("%s hears: %t, last read of the control log: %v", m.name, m.control.heard(), m.control.upToNow.Load())
	m.webhooks.Each(anyWebhook, func(h *subscriber.Live) {
		attempts, err := m.Admin().Attempts(context.Background(), h.ID)
		t.Logf("%s delivers to %s %s: %+v, %+v, %+v %v", m.name, h.ID, h.URL, h.Handle.Status(), h.Handle.Progress(), attempts, err)
	})
}

// register registers "e" with a payloadSchema, or none when it is empty.
func (f *fleet) register(s *Server, payload string) *Emitter[incident] {
	f.t.Helper()
	typ := incidentType("e")
	switch payload {
	case "":
	case "none":
		return nil
	default:
		typ.PayloadSchema = json.RawMessage(payload)
	}
	if f.input != "" {
		typ.InputSchema = json.RawMessage(f.input)
	}
	e, err := Register(s, typ, f.hooks)
	if err != nil {
		f.t.Fatal(err)
	}
	return e
}

func (f *fleet) afloat() (all []*sailor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if !m.gone {
			all = append(all, m)
		}
	}
	return all
}

// sink ends a server as a crash would.
func (f *fleet) sink(m *sailor) {
	f.mu.Lock()
	m.gone = true
	f.mu.Unlock()
	m.cluster.stop()
	m.control.stop()
}

// leave shuts a server down.
func (f *fleet) leave(m *sailor) {
	f.t.Helper()
	f.mu.Lock()
	m.gone = true
	f.mu.Unlock()
	if err := m.Shutdown(context.Background()); err != nil {
		f.t.Fatal(err)
	}
}

// settled waits until every shard of the type is owned by somebody who has read it, and all have a share.
func (f *fleet) settled() {
	f.t.Helper()
	waitUntil(f.t, "every shard is owned", func() bool {
		n, fair := 0, true
		all := f.afloat()
		for _, m := range all {
			has := m.webhooks.Settled("e")
			n += has
			fair = fair && has >= shardsOfType/len(all)-2
		}
		return n == shardsOfType && fair
	})
}

// owner is who delivers to the subscription.
func (f *fleet) owner(id string) (m *sailor) {
	f.t.Helper()
	waitUntil(f.t, "the subscription is live", func() bool {
		for _, m = range f.afloat() {
			if m.webhooks.Get(id) != nil {
				return true
			}
		}
		return false
	})
	return m
}

// other is one that does not.
func (f *fleet) other(id string) *sailor {
	f.t.Helper()
	owner := f.owner(id)
	for _, m := range f.afloat() {
		if m != owner {
			return m
		}
	}
	f.t.Fatal("there is nobody else")
	return nil
}

func (m *sailor) subscribe(t testing.TB, principal, p string) (s subscribed) {
	t.Helper()
	raw, rerr := call(m.Server, principal, wire.MethodSubscribe, p)
	if rerr != nil {
		t.Fatalf("subscribe at %s: %s: %d %s %s", m.name, p, rerr.Code, rerr.Message, rerr.Data)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func (m *sailor) unsubscribe(t testing.TB, principal, url string) {
	t.Helper()
	raw, rerr := call(m.Server, principal, wire.MethodUnsubscribe, fmt.Sprintf(`{"name":"e","delivery":{"url":%q}}`, url))
	if rerr != nil {
		t.Fatalf("unsubscribe at %s: %s %v", m.name, raw, rerr)
	}
}

// to returns what came for a callback, in the order of coming.
func (r *receiver) to(url string) (ids []string) {
	for _, d := range r.all() {
		if d.url == url {
			ids = append(ids, d.short())
		}
	}
	return ids
}

// REP-6, REP-11: each process answers subscribes, and what is emitted at any reaches every subscription once,
// whoever delivers. Each process owns a share.
func TestREP11SubscribeAnywhere(t *testing.T) {
	for name, o := range map[string]postgres.Options{"listening": {}, "notifications are lost": eager} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 3, func(f *fleet) { f.store = o })
			f.settled()
			const each = 12
			var ids []string
			for i := range each {
				m := f.members[i%3]
				s := m.subscribe(t, fmt.Sprint("p", i), params(fmt.Sprint(plain, i), secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i)))
				if s.Cursor == nil || s.Truncated || s.DeliveryStatus != nil {
					t.Fatalf("%+v", s)
				}
				ids = append(ids, s.ID)
			}
			owners := map[string]int{}
			for _, id := range ids {
				owners[f.owner(id).name]++
			}
			if len(owners) < 2 {
				t.Errorf("owners %v", owners)
			}
			var want []string
			for i := range each {
				id := fmt.Sprint("i", i)
				emit(t, f.members[(i+1)%3].emitter, incident{ID: id, Level: 100})
				want = append(want, id)
			}
			for i := range each {
				url := fmt.Sprint(plain, i)
				waitUntil(t, "all for "+url, func() bool { return len(f.r.to(url)) >= each })
				got := f.r.to(url)
				slices.Sort(got)
				sorted := slices.Sorted(slices.Values(want))
				wantStrings(t, url, got, sorted...)
			}
		})
	}
}

// REP-11: a refresh at a process that does not deliver prolongs, says what was found, and rotates: soon both
// secrets sign. An unsubscribe there ends deliveries and retries.
func TestREP11RefreshRotateUnsubscribeElsewhere(t *testing.T) {
	f := newFleet(t, 2, nil)
	f.settled()
	s := f.members[0].subscribe(t, "ann", params(plain, secretA, ""))
	owner, other := f.owner(s.ID), f.other(s.ID)
	emit(t, other.emitter, incident{ID: "1"})
	waitUntil(t, "the first", func() bool { return len(f.r.to(plain)) == 1 })
	if d := f.r.last(); !d.signedBy(secretA) {
		t.Fatal("not signed by the first secret")
	}
	again := other.subscribe(t, "ann", params(plain, secretB, ""))
	if again.ID != s.ID || again.DeliveryStatus == nil || !again.DeliveryStatus.Active || again.Cursor == nil {
		t.Fatalf("%+v", again)
	}
	time.Sleep(time.Second)
	emit(t, other.emitter, incident{ID: "2"})
	waitUntil(t, "the second", func() bool { return len(f.r.to(plain)) == 2 })
	if d := f.r.last(); !d.signedBy(secretA) || !d.signedBy(secretB) {
		t.Fatal("not signed by both secrets")
	}
	waitUntil(t, "the watermark is stored", func() bool {
		i, err := other.Admin().Get(t.Context(), s.ID)
		return err == nil && i.Cursor != nil && *i.Cursor == *f.r.last().body.Cursor
	})
	f.r.on(refuseAll)
	emit(t, other.emitter, incident{ID: "3"})
	waitUntil(t, "the third", func() bool { return len(f.r.to(plain)) == 3 })
	other.unsubscribe(t, "ann", plain)
	waitUntil(t, "it has ended where it lived", func() bool { return owner.webhooks.Get(s.ID) == nil })
	emit(t, other.emitter, incident{ID: "4"})
	time.Sleep(200 * time.Millisecond)
	if n := len(f.r.to(plain)); n != 3 {
		t.Fatalf("%d deliveries", n)
	}
	for _, m := range f.members {
		if _, rerr := call(m.Server, "ann", wire.MethodUnsubscribe, fmt.Sprintf(`{"name":"e","delivery":{"url":%q}}`, plain)); rerr == nil {
			t.Errorf("%s: unsubscribed twice", m.name)
		}
	}
}

// REP-9: a rolling restart under load misses nothing and repeats nothing.
func TestREP9RollingRestart(t *testing.T) {
	f := newFleet(t, 2, func(f *fleet) { f.options.Replica.Lease = 10 * time.Second })
	f.settled()
	const subs = 8
	for i := range subs {
		f.members[i%2].subscribe(t, "ann", params(fmt.Sprint(plain, i), secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i)))
	}
	stop := make(chan struct{})
	var sent []string
	var done sync.WaitGroup
	done.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			id := fmt.Sprintf("i%05d", i)
			all := f.afloat()
			m := all[i%len(all)]
			if err := m.emitter.Emit(context.Background(), incident{ID: id, Level: 100}, events.WithID(id)); err != nil {
				continue // it was shut down meanwhile, or the emit was refused
			}
			sent = append(sent, id)
		}
	})
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		f.join()
		f.settled()
		f.leave(f.afloat()[0])
		f.settled()
	}
	time.Sleep(300 * time.Millisecond)
	close(stop)
	done.Wait()
	for i := range subs {
		url := fmt.Sprint(plain, i)
		waitUntil(t, "all", func() bool { return len(f.r.to(url)) >= len(sent) })
		got := f.r.to(url)
		slices.Sort(got)
		wantStrings(t, url, got, sent...)
	}
}

// REP-9, REP-10: after a crash of an owner another goes on within its lease and about two seconds; nothing is
// missed, and what is repeated was not settled.
func TestREP9Crash(t *testing.T) {
	f := newFleet(t, 3, nil)
	f.settled()
	const subs = 8
	ids := map[string]string{}
	for i := range subs {
		url := fmt.Sprint(plain, i)
		ids[url] = f.members[i%3].subscribe(t, "ann", params(url, secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i))).ID
	}
	var sent []string
	n := 0
	send := func(by *sailor) {
		id := fmt.Sprintf("i%05d", n)
		n++
		emit(t, by.emitter, incident{ID: id, Level: 100})
		sent = append(sent, id)
	}
	for range 20 {
		send(f.members[n%3])
	}
	for range 2 {
		owner := f.owner(ids[fmt.Sprint(plain, 0)])
		f.sink(owner)
		crashed := time.Now()
		for range 20 {
			send(f.afloat()[0])
		}
		f.settled()
		for i := range subs {
			url := fmt.Sprint(plain, i)
			waitUntil(t, "all", func() bool { return covers(f.r.to(url), sent) })
		}
		t.Logf("delivered %v after the crash", time.Since(crashed))
	}
}

// covers reports whether got has all of want and nothing else.
func covers(got, want []string) bool {
	set := slices.Compact(slices.Sorted(slices.Values(got)))
	return slices.Equal(set, slices.Sorted(slices.Values(want)))
}

// REP-7: an owner whose shards were claimed by somebody else, without its knowledge, writes nothing more and
// stops; the other one goes on.
func TestREP7FencedOwnerStops(t *testing.T) {
	f := newFleet(t, 2, func(f *fleet) { f.options.Replica.Lease = 20 * time.Second })
	f.settled()
	s := f.members[0].subscribe(t, "ann", params(plain, secretA, ""))
	owner, other := f.owner(s.ID), f.other(s.ID)
	emit(t, other.emitter, incident{ID: "1"})
	waitUntil(t, "the first", func() bool { return len(f.r.to(plain)) == 1 })
	held := make(chan struct{})
	f.r.on(func(w http.ResponseWriter, d *delivered) bool {
		if d.body.EventID == "2" {
			<-held
		}
		return false
	})
	emit(t, other.emitter, incident{ID: "2"})
	waitUntil(t, "the second", func() bool { return len(f.r.to(plain)) == 2 })
	// As if its lease had expired while it stood still.
	pgtest.Exec(t, pgtest.URL(t), fmt.Sprintf(`DELETE FROM %s.leases WHERE name = '%s'`, f.schema, owner.name))
	waitUntil(t, "the other one has it", func() bool { return other.webhooks.Get(s.ID) != nil })
	close(held)
	waitUntil(t, "the old one has stopped", func() bool { return owner.webhooks.Get(s.ID) == nil })
	emit(t, owner.emitter, incident{ID: "3"})
	waitUntil(t, "the third", func() bool { return covers(f.r.to(plain), []string{"1", "2", "3"}) })
	time.Sleep(300 * time.Millisecond)
	n := 0
	for _, id := range f.r.to(plain) {
		if id == "3" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the third was delivered %d times", n)
	}
}
