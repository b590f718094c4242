package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/solo"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	origin = "http://receiver.test" // which callbacks may be on
	plain  = origin + "/hooks/1"
	secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
)

var errTest = errors.New("secret internal text")

type incident = eventtypetest.Incident

// notes are what fakes were asked for.
type notes struct {
	mu  sync.Mutex
	all []string
}

func (n *notes) note(format string, a ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprintf(format, a...))
}

// want fails unless that was noted since the last time, in any order.
func (n *notes) want(t *testing.T, what string, want ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	slices.Sort(n.all)
	slices.Sort(want)
	if !slices.Equal(n.all, want) {
		t.Errorf("%s: %q, want %q", what, n.all, want)
	}
	n.all = nil
}

// A bed is a server without one, and its operator.
type bed struct {
	*Admin
	notes
	t        *testing.T
	webhooks *subscriber.Subscriptions
	told     *told
	logged   *strings.Builder // guarded by notes.mu
	closing  chan struct{}

	lock     sync.Mutex
	types    []*eventType
	streams  []*stream
	pollers  []*connection
	hidden   map[string]error         // by principal; nil is hidden, an error what the hook says instead
	refused  map[string]*events.Error // by principal
	numbered uint64
}

// A told keeps what other processes are told, instead of them.
type told struct {
	notes
	among
	heard  time.Time
	fails  error
	closed map[string]*events.Error
}

func (p *told) order(verb string, o orders.Order) error {
	text := fmt.Sprintf("%s %s %s%s", verb, o.Kind, o.Principal, o.Of())
	if o.Target != nil && o.Of() == "" {
		text += o.Target.Event
	}
	if e := o.Err(); e != nil {
		text += " " + e.Kind.String() + string(e.Data)
	}
	p.note("%s", strings.TrimSpace(text))
	return p.fails
}

func (p *told) Tell(_ context.Context, o orders.Order) error { return p.order("tell", o) }
func (p *told) Ask(_ context.Context, o orders.Order) error  { return p.order("ask", o) }

func (p *told) Stamp(context.Context) time.Time { return time.Now() }

func (p *told) CloseType(_ context.Context, event string, e *events.Error) error {
	p.note("close %s %v", event, e != nil)
	if p.fails == nil {
		p.closed[event] = e
	}
	return p.fails
}

func (p *told) ClosedType(_ context.Context, event string) (*events.Error, error) {
	return p.closed[event], p.fails
}

// An among is a process that shares its store, as far as an Admin asks.
type among struct {
	fence  uint64
	owned  map[string]int
	oldest time.Duration
}

func (a *among) Status() (uint64, map[string]int, bool) { return a.fence, a.owned, a.owned != nil }
func (a *among) OutboxAge() time.Duration               { return a.oldest }

// An ordered is a process that gives orders.
type ordered struct {
	*orders.Log
	among
}

func (p *told) LastLook() time.Time { return p.heard }

// A setup is what a bed is made of. The zero setup has webhooks, and a store in memory.
type setup struct {
	records   *solo.Records // those of another bed: its owner delivers
	processes Processes
	store     store.Store
	outbox    engine.Outbox
	kept      int // of attempts; 0 for the default, negative for none
	without   bool
	r         *receiver
	suspend   delivery.Suspension
	changed   func(id string, of engine.Shard)
}

func newBed(t *testing.T, o setup) *bed {
	t.Helper()
	b := &bed{t: t, told: &told{closed: map[string]*events.Error{}}, logged: &strings.Builder{}, closing: make(chan struct{}),
		hidden: map[string]error{}, refused: map[string]*events.Error{}}
	log := &fault.Log{Logger: slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if o.store == nil {
		o.store = memory.New()
	}
	a := Options{Host: host{b}, Processes: b.told, Store: o.store, Outbox: o.outbox, Dialect: wire.Sketch, Now: time.Now, Closing: b.closing, Log: log}
	if o.processes != nil {
		a.Processes = o.processes
	}
	if !o.without {
		b.webhooks = b.newWebhooks(&a, o)
		a.Webhooks = b.webhooks
	}
	b.Admin = New(a)
	return b
}

func (b *bed) newWebhooks(a *Options, o setup) *subscriber.Subscriptions {
	b.t.Helper()
	guarded := netguard.Options{AllowOrigins: []string{origin}, Resolver: resolver{}}
	if o.r != nil {
		guarded.DialContext = o.r.net.DialContext
	}
	guard, err := netguard.New(guarded)
	must(b.t, err)
	if o.records == nil {
		o.records, err = solo.Open(b.t.Context(), a.Store.(store.SubscriptionStore))
		must(b.t, err)
	}
	var w *subscriber.Subscriptions
	if o.changed == nil {
		o.changed = func(id string, of engine.Shard) { w.Changed(id, of) }
	}
	deliveries := delivery.Options{Jitter: -1, Suspend: o.suspend, Logger: a.Log.Logger}
	if kept, ok := a.Store.(engine.Attempts); ok && o.kept >= 0 {
		deliveries.Attempts, deliveries.AttemptBounds = kept, engine.AttemptBounds{PerSubscription: cmp.Or(o.kept, 10), MaxAge: time.Hour, Total: 1000}
	}
	w, err = subscriber.New(subscriber.Options{Host: webhookHost{b}, Store: o.records, Cluster: solo.Cluster(o.changed), Guard: guard,
		Terms: subscriber.Terms{Min: time.Minute, Default: time.Hour, Max: time.Hour}, Quota: subscriber.Quota{PerPrincipal: 100, Total: 100},
		Verify:   verify.Options{Limits: verify.Limits{Timeout: time.Second, Budget: 10, CacheFor: time.Hour, PerPrincipal: 100, Total: 100}, Meter: noop.Meter{}},
		Delivery: deliveries, Log: a.Log})
	must(b.t, err)
	b.t.Cleanup(func() {
		if err := w.Shutdown(context.Background()); err != nil {
			b.t.Error(err)
		}
	})
	return w
}

// Write keeps what is logged.
func (b *bed) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logged.Write(p)
}

// log returns what was logged since the last time.
func (b *bed) log() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.logged.Reset()
	return b.logged.String()
}

// event registers an event type that emits. Its webhook subscriptions are delivered to here, unless they are told to be
// another bed's.
func (b *bed) event(name string, owned bool) *eventType {
	b.t.Helper()
	return b.register(eventtypetest.New(b.t, name, eventtypetest.Options{Emits: true, Fingerprint: "1"}), owned)
}

func (b *bed) register(p *eventtypetest.Type, owned bool) *eventType {
	b.t.Helper()
	e := &eventType{Type: p}
	b.lock.Lock()
	b.types = append(b.types, e)
	b.lock.Unlock()
	if b.webhooks != nil && owned {
		e.ownership = &ownership{Ownership: solo.NewOwnership(b.t.Context(), p.Name())}
		must(b.t, b.webhooks.Serve(b.t.Context(), e.ownership, e, func() {}))
	}
	return e
}

// remove takes an event type away.
func (b *bed) remove(e *eventType) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.types = slices.DeleteFunc(b.types, func(o *eventType) bool { return o == e })
	e.Remove()
}

// stream opens a stream, and poller is one who may come again. Both note what becomes of them as of its principal.
func (b *bed) stream(e *eventType, principal string) *stream {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.numbered++
	st := &stream{connection: b.connection(e, wire.ModePush, principal), number: b.numbered}
	b.streams = append(b.streams, st)
	return st
}

func (b *bed) poller(e *eventType, principal string) *connection {
	b.lock.Lock()
	defer b.lock.Unlock()
	c := b.connection(e, wire.ModePoll, principal)
	b.pollers = append(b.pollers, c)
	return c
}

func (b *bed) connection(e *eventType, mode, principal string) *connection {
	return &connection{b: b, et: e, info: operator.Connection{Subscription: wire.SubscriptionID(mode, principal, "", e.Name(), []byte("{}")),
		Principal: principal, Event: e.Name(), Mode: mode, Since: time.Now()}}
}

// subscribe makes a webhook subscription to e, and returns its id.
func (b *bed) subscribe(principal string) string {
	b.t.Helper()
	id, err := b.Subscribe(b.t.Context(), operator.SubscribeRequest{Secret: secret,
		SubscriptionKey: operator.SubscriptionKey{Principal: principal, URL: plain, Event: "e"}})
	must(b.t, err)
	return id
}

// A host is a bed as its operator sees it.
type host struct{ *bed }

func (b host) EventTypes() (all []EventType) {
	b.lock.Lock()
	defer b.lock.Unlock()
	for _, e := range b.types {
		all = append(all, e)
	}
	return all
}

func (b host) EventType(name string) EventType {
	b.lock.Lock()
	defer b.lock.Unlock()
	for _, e := range b.types {
		if e.Name() == name {
			return e
		}
	}
	return nil
}

func (b host) Streams() (all []Stream) {
	b.lock.Lock()
	defer b.lock.Unlock()
	for _, st := range b.streams {
		all = append(all, st)
	}
	return all
}

func (b host) Stream(number uint64) Stream {
	b.lock.Lock()
	defer b.lock.Unlock()
	for _, st := range b.streams {
		if st.number == number {
			return st
		}
	}
	return nil
}

func (b host) Pollers() (all []Connection) {
	b.lock.Lock()
	defer b.lock.Unlock()
	for _, c := range b.pollers {
		all = append(all, c)
	}
	return all
}

func (b host) Poller(subscription string) Connection {
	b.lock.Lock()
	defer b.lock.Unlock()
	for _, c := range b.pollers {
		if c.info.Subscription == subscription {
			return c
		}
	}
	return nil
}

func (b host) Visible(_ context.Context, principal, _ string) (bool, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	err, hidden := b.hidden[principal]
	return !hidden, err
}

func (b host) Refused(_ context.Context, principal string, _ eventtype.Arguments) *events.Error {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.refused[principal]
}

func (b host) Deciding() {}

func (b host) ListChanged() { b.note("list changed") }

// A connection is a poller, or a part of a stream.
type connection struct {
	b      *bed
	et     *eventType
	info   operator.Connection
	behind *int64
}

func (c *connection) Info() operator.Connection { return c.info }
func (c *connection) Type() eventtype.Type      { return c.et }
func (c *connection) Behind() *int64            { return c.behind }

func (c *connection) Refused(ctx context.Context) *events.Error {
	return host{c.b}.Refused(ctx, c.info.Principal, eventtype.Arguments{})
}

func (c *connection) Terminate(e *events.Error) {
	c.b.note("%s %s ends: %s", c.info.Mode, c.info.Principal, said(e))
	c.b.lock.Lock()
	defer c.b.lock.Unlock()
	c.b.pollers = slices.DeleteFunc(c.b.pollers, func(o *connection) bool { return o == c })
	c.b.streams = slices.DeleteFunc(c.b.streams, func(o *stream) bool { return o.connection == c })
}

func said(e *events.Error) string {
	if e == nil {
		return "nothing"
	}
	return e.Kind.String() + " " + string(e.Data)
}

type stream struct {
	*connection
	number uint64
}

func (s *stream) Number() uint64 { return s.number }

func (s *stream) Raise(e *events.Error) { s.b.note("%s hears: %s", s.info.Principal, said(e)) }

// An eventType is one with what operators know of it.
type eventType struct {
	*eventtypetest.Type
	ownership *ownership // nil where another bed delivers
}

func (e *eventType) Describe(schemas bool) (i operator.EventTypeInfo, ok bool) {
	d := e.Current()
	if d == nil {
		return i, false
	}
	i.EventType = operator.EventType{Name: e.Name(), Description: "An incident.", Delivery: []string{"poll"}, Replay: !d.Kernel().NoReplay}
	if schemas {
		i.InputSchema = json.RawMessage(eventtypetest.InputSchema)
	}
	return i, true
}

func (e *eventType) EmitJSON(ctx context.Context, data json.RawMessage, opts ...events.EmitOption) error {
	var o events.EmitOptions
	for _, opt := range opts {
		opt(&o)
	}
	meta, _ := json.Marshal(o.Meta)
	_, err := e.Topic().Append(ctx, store.Entry{EventID: o.ID, Targets: o.Targets, Meta: meta, Timestamp: events.NewTime(time.Now()), Data: data}, nil, true)
	return err
}

// An ownership lasts until it is over.
type ownership struct {
	solo.Ownership
	mu   sync.Mutex
	over bool
}

func (t *ownership) Valid() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.over
}

func (t *ownership) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

// A failingStore is one in memory whose records and attempts cannot be read while it fails.
type failingStore struct {
	*memory.Store
	err      atomic.Pointer[error]
	attempts atomic.Pointer[error]
}

func newFailingStore() *failingStore { return &failingStore{Store: memory.New()} }

func (s *failingStore) fail(err error) {
	if s.err.Store(&err); err == nil {
		s.err.Store(nil)
	}
}

func (s *failingStore) failAttempts(err error) { s.attempts.Store(&err) }

func (s *failingStore) Attempts(ctx context.Context, id string, limit int) ([]operator.Attempt, error) {
	if err := s.attempts.Load(); err != nil {
		return nil, *err
	}
	return s.Store.Attempts(ctx, id, limit)
}

func (s *failingStore) failing() error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *failingStore) Subscription(ctx context.Context, id string) (store.Subscription, bool, error) {
	if err := s.failing(); err != nil {
		return store.Subscription{}, false, err
	}
	return s.Store.Subscription(ctx, id)
}

func (s *failingStore) Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error) {
	if err := s.failing(); err != nil {
		return nil, err
	}
	return s.Store.Subscriptions(ctx, after, limit)
}

// A webhookHost is a bed as its webhook subscriptions see it: it has no hooks of an author, and no bounds.
type webhookHost struct{ *bed }

func (h webhookHost) Type(event string) (eventtype.Type, bool) {
	et := host(h).EventType(event)
	return et, et != nil
}

func (h webhookHost) Refused(ctx context.Context, principal string, a eventtype.Arguments) *events.Error {
	return host(h).Refused(ctx, principal, a)
}

func (h webhookHost) Join(context.Context, eventtype.Subscription, eventtype.Arguments) error {
	return nil
}
func (h webhookHost) Leave(eventtype.Subscription, eventtype.Arguments)   {}
func (h webhookHost) Release(eventtype.Subscription, eventtype.Arguments) {}
func (h webhookHost) Asks(eventtype.Arguments) bool                       { return true }
func (h webhookHost) Take(string, int) error                              { return nil }
func (h webhookHost) Keep(string, int)                                    {}
func (h webhookHost) Give(string, int)                                    {}

type resolver struct{}

func (resolver) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, ctx.Err()
}

// A receiver is every callback of a test. It accepts all, unless refuse answers otherwise.
type receiver struct {
	net    *memnet.Network
	mu     sync.Mutex
	got    []string
	ids    []string // webhook-id of each
	handle func(w http.ResponseWriter)
}

// receive serves callbacks until the test ends.
func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{net: memnet.New()}
	hs := &http.Server{Handler: r, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = hs.Serve(r.net)
	}()
	t.Cleanup(func() {
		hs.Close()
		<-served
	})
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body struct {
		Type      string            `json:"type"`
		Challenge string            `json:"challenge"`
		EventID   string            `json:"eventId"`
		Error     *wire.ErrorObject `json:"error"`
	}
	raw, _ := io.ReadAll(req.Body)
	if err := json.Unmarshal(raw, &body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	short := body.Type + body.EventID
	if body.Error != nil {
		short = fmt.Sprintf("%s %s", body.Type, body.Error.Data)
	}
	r.mu.Lock()
	r.got, r.ids = append(r.got, short), append(r.ids, req.Header.Get(wire.HeaderWebhookID))
	f := r.handle
	r.mu.Unlock()
	if f != nil {
		f(w)
		return
	}
	fmt.Fprintf(w, `{"challenge":%q}`, body.Challenge)
}

func (r *receiver) on(f func(w http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handle = f
}

func refuse(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }

// all returns what came since the last time.
func (r *receiver) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got, r.ids = nil, nil
	return got
}

// webhookIDs are those of what came since the last time.
func (r *receiver) webhookIDs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids)
}

// want fails unless that came since the last time.
func (r *receiver) want(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := r.all(); !slices.Equal(got, want) {
		t.Errorf("%s: %q came, want %q", what, got, want)
	}
}

// settle lets time pass, and what it leads to end.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// missing fails unless what was asked for is not there.
func missing(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, events.ErrNotFound) {
		t.Errorf("%s: %v, want not found", what, err)
	}
}

func errorOf[T any](_ T, err error) error { return err }
