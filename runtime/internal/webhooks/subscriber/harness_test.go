package subscriber_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/lease"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secretA = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	secretB = "whsec_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA="
	// origin needs no verification, and strange does.
	origin  = "http://receiver.test/"
	strange = "http://strange.test/"
	// while is enough for all that is done without a pause, and far less than a retry takes.
	while = 3 * time.Second
)

var (
	errStore  = errors.New("the store is away")
	errUntold = errors.New("the other processes are away")
)

// A deployment has the processes that serve one store, and the receiver of all deliveries.
type deployment struct {
	t       *testing.T
	cluster *memcluster.Cluster
	db      *memcluster.Store // for a look at what is stored
	r       *receiver
	started []*process

	mu       sync.Mutex
	unheard  bool                // nobody hears what records others have changed
	untold   bool                // and whoever tells of it gets an error
	standing subscriber.Standing // what operators have done of late, as processes read it
	requests store.Position      // of operators; every process knows all of them at once
	obsolete func(schema string, read bool) *events.Error
	warnings strings.Builder
}

// Write records the warnings of all processes.
func (f *deployment) Write(b []byte) (n int, err error) {
	f.locked(func() { n, err = f.warnings.Write(b) })
	return n, err
}

// warns fails unless exactly one warning about ended subscriptions is logged, with the text.
func (f *deployment) warns(what, text string) {
	f.t.Helper()
	time.Sleep(10 * time.Second)
	f.locked(func() {
		var got []string
		for line := range strings.Lines(f.warnings.String()) {
			if strings.Contains(line, "webhook subscriptions have ended") {
				got = append(got, line)
			}
		}
		if len(got) != 1 || !strings.Contains(got[0], text) {
			f.t.Errorf("%s: %q, want %q", what, got, text)
		}
	})
}

// bubble runs f with a deployment in a synctest bubble. Whatever f has left running is shut down in the end, when no
// process may have a member or a charge left that has no subscription.
func bubble(t *testing.T, f func(t *testing.T, f *deployment)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		fl := &deployment{t: t, cluster: c, db: c.Open(), r: newReceiver(t)}
		f(t, fl)
		for _, p := range fl.started {
			p.balance()
			p.stop()
		}
	})
}

// locked calls do with the lock of the deployment.
func (f *deployment) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// stored returns a record.
func (f *deployment) stored(id string) (store.Subscription, bool) {
	f.t.Helper()
	r, ok, err := f.db.Subscription(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return r, ok
}

// gone fails if the record is there.
func (f *deployment) gone(what, id string) {
	f.t.Helper()
	if r, ok := f.stored(id); ok {
		f.t.Errorf("%s: %+v is still stored", what, r)
	}
}

// change changes a record as another process would that tells nobody.
func (f *deployment) change(id string, edit func(r *store.Subscription)) {
	f.t.Helper()
	r, ok := f.stored(id)
	if !ok {
		f.t.Fatal("no such record")
	}
	edit(&r)
	if _, err := f.db.PutSubscription(f.t.Context(), r); err != nil {
		f.t.Fatal(err)
	}
}

// add stores a copy of a record with another callback.
func (f *deployment) add(r store.Subscription, path string) store.Subscription {
	f.t.Helper()
	r.URL, r.Revision, r.Generation = origin+path, 0, r.Generation+1
	r.ID = wire.SubscriptionID(wire.ModeWebhook, r.Principal, r.URL, r.Event, r.Arguments)
	var err error
	if r.Revision, err = f.db.PutSubscription(f.t.Context(), r); err != nil {
		f.t.Fatal(err)
	}
	return r
}

// A process is one that serves webhook subscriptions to the event type "e".
type process struct {
	*subscriber.Subscriptions
	f         *deployment
	store     *memcluster.Store
	fence     uint64
	typ       *eventtypetest.Type
	author    author
	members   lease.Members
	ownership *ownership // nil without a shard
	owning    chan struct{}
	stopped   bool
	deaf      atomic.Bool // it does not know the requests of operators

	mu      sync.Mutex
	charged map[string]int // by principal
}

// A setting changes what a process is made of.
type setting func(o *subscriber.Options, e *eventtypetest.Options)

// process starts one. It owns nothing yet.
func (f *deployment) process(settings ...setting) *process {
	f.t.Helper()
	p := &process{f: f, store: f.cluster.Open(), charged: map[string]int{}}
	p.members.Host = &p.author
	guard, err := netguard.New(netguard.Options{AllowOrigins: []string{strings.TrimSuffix(origin, "/"), strings.TrimSuffix(strange, "/")},
		DialContext: f.r.DialContext, Resolver: f.r})
	if err != nil {
		f.t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(p.f, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o := subscriber.Options{Host: host{p}, Store: p.store, Durable: true, Guard: guard, Log: &fault.Log{Logger: logger},
		Terms: subscriber.Terms{Min: time.Minute, Default: time.Hour, Max: 24 * time.Hour}, Grace: 5 * time.Minute,
		Quota: subscriber.Quota{PerPrincipal: 10, Total: 100},
		Verify: verify.Options{Allow: []string{origin}, Limits: verify.Limits{Timeout: 5 * time.Second, Budget: 100, CacheFor: time.Hour,
			PerPrincipal: 100, Total: 1000}, Telemetry: telemetry.Discard},
		Delivery: delivery.Options{Jitter: -1, Logger: logger}}
	o.Cluster = &subscriber.Cluster{Now: time.Now, Position: f.position, Shards: 1, Tell: f.tell,
		Standing: f.stands, Obsolete: f.isObsolete}
	e := eventtypetest.Options{Emits: true, Fingerprint: "1", Log: func(name string, o store.LogOptions) (store.EventLog, error) {
		return p.store.OpenLog(context.Background(), name, o)
	}}
	for _, set := range settings {
		set(&o, &e)
	}
	p.typ = eventtypetest.New(f.t, "e", e)
	if p.Subscriptions, err = subscriber.New(o); err != nil {
		f.t.Fatal(err)
	}
	l, err := p.store.Join(f.t.Context(), "", 1000*time.Hour, nil, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	p.fence = l.Fence
	if err := p.Establish(f.t.Context(), "e"); err != nil {
		f.t.Fatal(err)
	}
	f.locked(func() { f.started = append(f.started, p) })
	return p
}

// tell tells all processes, as the control log does, of a record that was changed.
func (f *deployment) tell(_ context.Context, id string, of engine.Shard) error {
	f.mu.Lock()
	unheard, untold := f.unheard, f.untold
	running := slices.DeleteFunc(slices.Clone(f.started), func(p *process) bool { return p.stopped })
	f.mu.Unlock()
	if untold {
		return errUntold
	}
	for _, p := range running {
		if !unheard {
			p.Changed(id, of)
		}
	}
	return nil
}

func (f *deployment) stands(context.Context) (subscriber.Standing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.standing, nil
}

func (f *deployment) position() store.ControlPosition {
	f.mu.Lock()
	defer f.mu.Unlock()
	return store.ControlPosition{Generation: 1, Position: f.requests}
}

// request is the position of a request of an operator. Later subscriptions are not meant.
func (f *deployment) request() store.ControlPosition {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	return store.ControlPosition{Generation: 1, Position: f.requests}
}

// revoke has an operator revoke what the principal has, of the named types or of all, of which no process hears but those
// that take up a shard.
func (f *deployment) revoke(principal string, names ...string) {
	at := f.request()
	f.locked(func() {
		f.standing.Revoked = append(f.standing.Revoked, subscriber.Revocation{Principal: principal, Names: names, At: at})
	})
}

func (f *deployment) isObsolete(_ eventtype.Type, schema string, read bool) *events.Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.obsolete == nil {
		return nil
	}
	return f.obsolete(schema, read)
}

// An ownership is a shard as one process owns it.
type ownership struct {
	hold     engine.ShardFence
	ctx      context.Context
	end      context.CancelFunc
	draining chan struct{}
	lapsed   atomic.Bool // by the clock, although nobody has said so
}

func (t *ownership) ShardFence() engine.ShardFence { return t.hold }
func (t *ownership) Context() context.Context      { return t.ctx }
func (t *ownership) Draining() <-chan struct{}     { return t.draining }
func (t *ownership) Valid() bool                   { return t.ctx.Err() == nil && !t.lapsed.Load() }
func (t *ownership) Fenced()                       { t.end() }

// own makes the process the owner of the shard, which nobody may own any more.
func (p *process) own() *process {
	p.f.t.Helper()
	p.claim()
	p.owning = make(chan struct{})
	go func() {
		defer close(p.owning)
		p.Own(p.ownership)
	}()
	synctest.Wait()
	return p
}

// claim begins the ownership of the shard.
func (p *process) claim() {
	p.f.t.Helper()
	of := engine.Shard{Topic: "e"}
	for _, from := range p.f.started {
		won, err := p.store.Claim(p.f.t.Context(), p.fence, []engine.ShardFence{{Shard: of, Fence: from.fence}, {Shard: of}})
		if err != nil {
			p.f.t.Fatal(err)
		}
		if len(won) > 0 {
			p.ownership = &ownership{hold: engine.ShardFence{Shard: of, Fence: p.fence}, draining: make(chan struct{})}
			p.ownership.ctx, p.ownership.end = context.WithCancel(context.Background())
			return
		}
	}
	p.f.t.Fatal("the shard has an owner")
}

// giveAway ends the ownership as a process does that has concluded everything.
func (p *process) giveAway() {
	p.f.t.Helper()
	close(p.ownership.draining)
	<-p.owning
	p.free()
}

// free gives the shard up, which the process does not own any more.
func (p *process) free() {
	p.f.t.Helper()
	if err := p.store.Release(p.f.t.Context(), p.ownership.hold); err != nil {
		p.f.t.Fatal(err)
	}
	p.ownership.end()
	p.ownership = nil
}

// lose ends the lease of the process, which does not know.
func (p *process) lose() { p.f.cluster.Outlive(p.fence) }

// crash ends the process: nothing that it does reaches the store any more.
func (p *process) crash() {
	p.store.Close()
	p.lose()
	if p.ownership != nil {
		p.ownership.end()
	}
	p.stop()
}

// stop ends the process in order. What it owns is free afterwards.
func (p *process) stop() {
	if p.stopped {
		return
	}
	p.f.locked(func() { p.stopped = true })
	if p.ownership != nil && p.owning != nil {
		close(p.ownership.draining)
		<-p.owning
	}
	if err := p.Shutdown(context.Background()); err != nil && !errors.Is(err, store.ErrClosed) {
		p.f.t.Error(err)
	}
	if p.ownership != nil {
		p.ownership.end()
	}
	p.lose()
}

// faults has the process's steps on the store fail whose names begin so; none ends that.
func (p *process) faults(prefixes ...string) { p.inject(prefixes, func() error { return errStore }) }

// slow has steps take their time.
func (p *process) slow(d time.Duration, prefixes ...string) {
	p.inject(prefixes, func() error {
		time.Sleep(d)
		return nil
	})
}

func (p *process) inject(prefixes []string, f func() error) {
	p.store.Inject(memcluster.Faults{Fail: func(op string) error {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(op, prefix) }) {
			return f()
		}
		return nil
	}})
}

// emit appends occurrences of those ids.
func (p *process) emit(ids ...string) {
	p.f.t.Helper()
	for _, id := range ids {
		p.typ.Emit(eventtypetest.Incident{ID: id})
		synctest.Wait()
	}
}

// A wish changes a request.
type wish func(q *subscriber.Request, p *wire.SubscribeParams)

func withSecret(secret string) wish {
	return func(_ *subscriber.Request, p *wire.SubscribeParams) { p.Delivery.Secret = secret }
}

func withArguments(raw string) wish {
	return func(_ *subscriber.Request, p *wire.SubscribeParams) { p.Arguments = json.RawMessage(raw) }
}

func from(cursor *string) wish {
	return func(q *subscriber.Request, _ *wire.SubscribeParams) { q.Replay.Cursor = cursor }
}

func lasting(d time.Duration) wish {
	return func(q *subscriber.Request, _ *wire.SubscribeParams) {
		ms := d.Milliseconds()
		q.TTLMs = &ms
	}
}

// ask asks for a subscription of the principal to all of "e", at a callback.
func (p *process) ask(ctx context.Context, principal, url string, wishes ...wish) (*subscriber.Result, error) {
	ctx = hook.WithPrincipal(ctx, principal)
	params := wire.SubscribeParams{Name: "e", Arguments: json.RawMessage(`{}`), Delivery: wire.Delivery{Mode: wire.ModeWebhook, URL: url, Secret: secretA}}
	q := &subscriber.Request{Type: p.typ, RawURL: url, Dialect: wire.SEP, Head: p.typ.Head(), Admitted: p.Position()}
	for _, w := range wishes {
		w(q, &params)
	}
	if err := p.Read(ctx, q, p.typ.Current(), &params); err != nil {
		return nil, err
	}
	q.Sub = eventtype.Identify(wire.ModeWebhook, principal, url, q.Args)
	return p.Subscribe(ctx, q)
}

// subscribe is an ask that must succeed. All that waits for the response is over when it returns.
func (p *process) subscribe(principal, url string, wishes ...wish) *subscriber.Result {
	p.f.t.Helper()
	res, err := p.ask(p.f.t.Context(), principal, url, wishes...)
	if err != nil {
		p.f.t.Fatal(err)
	}
	time.Sleep(subscriber.ReplyTime)
	synctest.Wait()
	return res
}

// balance fails when the process has members or charges of what is not live.
func (p *process) balance() {
	p.f.t.Helper()
	synctest.Wait()
	live := p.Holding().Live
	for id, n := range p.members.Holding() {
		if n != 1 || !slices.Contains(live, id) {
			p.f.t.Errorf("%s has %d members left", id, n)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for principal, n := range p.charged {
		if n != 0 && len(live) == 0 {
			p.f.t.Errorf("%d bytes of %s are still charged", n, principal)
		}
	}
}

// contains reports whether the error or its data has a text.
func contains(err error, text string) bool {
	var e *events.Error
	if errors.As(err, &e) && strings.Contains(string(e.Data), text) {
		return true
	}
	return err != nil && strings.Contains(err.Error(), text)
}

// errPending is returned by perform if nobody performs the request.
var errPending = errors.New("the request is pending")

// perform has a request performed, and waits 20 s for its outcome.
func (p *process) perform(ctx context.Context, id string, kind store.RequestKind, q store.Request) error {
	number, err := p.Ask(ctx, id, kind, q)
	if err != nil {
		return err
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		r, ok := p.f.stored(id)
		switch q := r.Requests[kind]; {
		case !ok && kind == store.RequestEnd:
			return nil
		case ok && q.Done.Number >= number && q.Done.Failure != "":
			return errors.New(q.Done.Failure)
		case ok && q.Done.Number >= number:
			return nil
		}
	}
	return errPending
}

// replay has a replay begun.
func (p *process) replay(ctx context.Context, id, cursor string, last store.Position) error {
	return p.perform(ctx, id, store.RequestReplay, store.Request{Cursor: cursor, Last: last})
}

// endReplay has a replay ended.
func (p *process) endReplay(ctx context.Context, id string) error {
	return p.perform(ctx, id, store.RequestReplay, store.Request{Ends: true})
}

// waiting returns the position up to which everything is settled, and how many entries follow.
func (p *process) waiting(t *testing.T, id string) (base store.Position, behind int64) {
	t.Helper()
	flushed := p.Flush(t.Context())
	r, _, err := p.Store().Subscription(t.Context(), id)
	log, base, behind := p.Waiting(&r)
	if flushed != nil || err != nil || log == nil {
		t.Errorf("what waits for %s is not known: %v %v", id, flushed, err)
	}
	return base, behind
}
