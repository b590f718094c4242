package operate_test

import (
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

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/performed"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	origin = "http://receiver.test" // callbacks may be on it
	plain  = origin + "/hooks/1"
	secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

	inputSchema = `{"type":"object","properties":{"severity":{"type":"string"}},"additionalProperties":false}`
)

var errTest = errors.New("secret internal text")

type arguments struct {
	Severity *string `json:"severity,omitzero"`
}

type incident struct {
	ID string `json:"id"`
}

// notes collects what streams and clients are told.
type notes struct {
	mu  sync.Mutex
	all []string
}

func (n *notes) note(format string, a ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprintf(format, a...))
}

// want reports an error unless exactly these notes were added since the last call, in any order.
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

// A bed is a server and its operator.
type bed struct {
	*operate.Admin
	notes
	t      *testing.T
	es     *server.Server
	logged strings.Builder // guarded by notes.mu

	types map[string]events.Type[arguments, incident] // by name

	lock    sync.Mutex
	gone    bool                     // cut off from its store
	hidden  map[string]error         // by principal; the Visible hook panics with an error that is not nil
	refused map[string]*events.Error // by principal
}

// A setup configures a bed. The zero setup has webhooks and a store in memory.
type setup struct {
	store   store.Store
	kept    int // attempts per subscription; 0 is the default, negative keeps none
	without bool
	r       *receiver
	suspend webhooks.Suspension
	replica replicas.Options
}

func newBed(t *testing.T, o setup) *bed {
	t.Helper()
	b := &bed{t: t, types: map[string]events.Type[arguments, incident]{}, hidden: map[string]error{}, refused: map[string]*events.Error{}}
	if o.store == nil {
		o.store = memory.New()
	}
	so := server.Options{Store: o.store, Visible: b.visible, Authorize: b.authorize, Reauthorize: -1, Operators: operators.New(),
		Logger: slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if _, ok := o.store.(engine.Shared); ok {
		so.Replicas = replicas.New(o.replica)
	}
	if !o.without {
		w := webhooks.Options{Callbacks: callbacks.Options{AllowOrigins: []string{origin}, Resolver: resolver{}}, DefaultTTL: time.Hour, MaxTTL: time.Hour,
			Retry: webhooks.Retry{Jitter: -1, Suspend: o.suspend}, Attempts: webhooks.Attempts{PerSubscription: o.kept}}
		if o.r != nil {
			w.Callbacks.DialContext = o.r.net.DialContext
		}
		so.Webhooks = webhooks.New(w)
	}
	var err error
	b.es, err = server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), so)
	must(t, err)
	t.Cleanup(func() {
		if err := b.es.Shutdown(context.Background()); err != nil && !b.gone {
			t.Error(err)
		}
	})
	b.Admin = b.es.Admin().(*operate.Admin)
	return b
}

// serve returns a bed with the event type "e", and the receiver of its webhooks.
func serve(t *testing.T) (*bed, *receiver, *eventType) {
	t.Helper()
	r := receive(t)
	b := newBed(t, setup{r: r})
	return b, r, b.event("e")
}

// These methods wait until their requests are performed.

func (b *bed) waiting() performed.Admin { return performed.Admin{Admin: b.Admin} }

func (b *bed) Resume(ctx context.Context, id string) error { return b.waiting().Resume(ctx, id) }

func (b *bed) Replay(ctx context.Context, id, cursor string, last store.Position) error {
	return b.waiting().Replay(ctx, id, cursor, last)
}

func (b *bed) EndReplay(ctx context.Context, id string) error { return b.waiting().EndReplay(ctx, id) }

func (b *bed) End(ctx context.Context, id string, e *events.Error) error {
	return b.waiting().End(ctx, id, e)
}

func (b *bed) SendAgain(ctx context.Context, id, eventID string, seen time.Time) (operator.Attempt, error) {
	return b.waiting().SendAgain(ctx, id, eventID, seen)
}

func (b *bed) RaiseGap(ctx context.Context, t operator.Target) (int, error) {
	return b.waiting().RaiseGap(ctx, t)
}

func (b *bed) Terminate(ctx context.Context, t operator.Target, e *events.Error) (int, error) {
	return b.waiting().Terminate(ctx, t, e)
}

// noteListChanged makes later changes of the list of event types notes.
func (b *bed) noteListChanged() {
	port.Of(b.es).OnListChanged(func() { b.note("list changed") })
}

func (b *bed) visible(_ context.Context, principal, _ string) bool {
	b.lock.Lock()
	defer b.lock.Unlock()
	err, hidden := b.hidden[principal]
	if err != nil {
		panic(err)
	}
	return !hidden
}

func (b *bed) authorize(_ context.Context, principal, _ string, _ json.RawMessage) error {
	b.lock.Lock()
	defer b.lock.Unlock()
	if e := b.refused[principal]; e != nil {
		return e
	}
	return nil
}

// Write keeps what the server logs.
func (b *bed) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logged.Write(p)
}

// log returns what the server logged since the last call.
func (b *bed) log() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.logged.Reset()
	return b.logged.String()
}

// An eventType is an event type with an emitter.
type eventType struct {
	b       *bed
	name    string
	emitter *server.Emitter[incident]
}

// event registers an event type with an emitter.
func (b *bed) event(name string, o ...server.TypeOption) *eventType {
	b.t.Helper()
	return b.register(events.Info{Name: name}, o...)
}

func (b *bed) register(i events.Info, o ...server.TypeOption) *eventType {
	b.t.Helper()
	i.Description, i.InputSchema, i.PayloadSchema = "An incident.", json.RawMessage(inputSchema), json.RawMessage(`{"type":"object"}`)
	b.types[i.Name] = events.Type[arguments, incident]{Info: i}
	emitter, err := server.Register(b.es, b.types[i.Name], server.Hooks[arguments, incident]{}, o...)
	must(b.t, err)
	return &eventType{b: b, name: i.Name, emitter: emitter}
}

// check registers an event type without a log.
func (b *bed) check(name string) {
	b.t.Helper()
	i := events.Info{Name: name, Description: "A check.", InputSchema: json.RawMessage(inputSchema), PayloadSchema: json.RawMessage(`{"type":"object"}`)}
	must(b.t, server.RegisterCheck(b.es, events.Type[arguments, incident]{Info: i}, func(context.Context, arguments, string) (events.Page[incident], error) {
		return events.Page[incident]{Cursor: "0"}, nil
	}, server.Hooks[arguments, incident]{}))
}

func (e *eventType) Emit(i incident, o ...events.EmitOption) {
	e.b.t.Helper()
	must(e.b.t, e.emitter.Emit(context.Background(), i, append([]events.EmitOption{events.WithID(i.ID)}, o...)...))
}

func (e *eventType) Head() store.Position {
	e.b.t.Helper()
	i, err := e.b.Admin.EventType(context.Background(), e.name)
	must(e.b.t, err)
	return i.Head
}

func (b *bed) request(method, principal, params string) port.Request {
	return port.Request{Method: method, Params: json.RawMessage(params), ID: json.RawMessage("1"), Principal: principal, Stateless: true, CanStream: true}
}

// poll polls the type as a principal, who stays a poller for some time.
func (b *bed) poll(e *eventType, principal string) error {
	return errorOf(port.Of(b.es).Call(b.t.Context(), b.request(wire.MethodPoll, principal, fmt.Sprintf(`{"name":%q}`, e.name))))
}

func (b *bed) poller(e *eventType, principal string) {
	b.t.Helper()
	must(b.t, b.poll(e, principal))
}

// pollers returns the principals of the pollers.
func (b *bed) pollers() (all []string) {
	open, _ := b.Connections(context.Background())
	for _, c := range open {
		if c.Mode == wire.ModePoll {
			all = append(all, c.Principal)
		}
	}
	return all
}

// A stream is an open stream. It notes the errors and gaps that it receives, and its end.
type stream struct {
	b         *bed
	principal string
	id        string        // of the subscription
	cursor    string        // of the last active
	goOn      chan struct{} // has a value unless the stream is blocked
}

// stream opens a stream of the principal.
func (b *bed) stream(e *eventType, principal string) *stream {
	b.t.Helper()
	s := &stream{b: b, principal: principal, id: wire.SubscriptionID(wire.ModePush, principal, "", e.name, []byte("{}")), goOn: make(chan struct{}, 1)}
	st, err := port.Of(b.es).Open(b.t.Context(), b.request(wire.MethodStream, principal, fmt.Sprintf(`{"name":%q}`, e.name)))
	must(b.t, err)
	s.goOn <- struct{}{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = st.Run(ctx, s) // the frames show how it ends
	}()
	b.t.Cleanup(func() {
		cancel()
		<-done
	})
	return s
}

// Write implements [port.Carrier].
func (s *stream) Write(frames []frame.Frame) error {
	for _, f := range frames {
		var p struct {
			Cursor    string
			Truncated bool
			Error     wire.ErrorObject
		}
		if err := json.Unmarshal(f.Params(), &p); err != nil {
			return err
		}
		kind, _, _ := strings.Cut(p.Error.Message, ":")
		switch f.Method() {
		case wire.NotificationActive:
			if s.cursor != "" {
				s.b.note("%s hears: %s", s.principal, map[bool]string{true: "a gap", false: "active"}[p.Truncated])
			}
			s.cursor = p.Cursor
		case wire.NotificationError:
			s.b.note("%s hears: %s %s", s.principal, kind, p.Error.Data)
		case wire.NotificationTerminated:
			s.b.note("push %s ends: %s %s", s.principal, kind, p.Error.Data)
		}
	}
	<-s.goOn
	s.goOn <- struct{}{}
	return nil
}

// subscribe creates a webhook subscription to e and returns its id.
func (b *bed) subscribe(principal string) string { return b.at(principal, "/hooks/1") }

// at creates a webhook subscription to e for a principal at a path of the receiver.
func (b *bed) at(principal, path string) string {
	b.t.Helper()
	id, err := b.Subscribe(b.t.Context(), operator.SubscribeRequest{Secret: secret,
		SubscriptionKey: operator.SubscriptionKey{Principal: principal, URL: origin + path, Event: "e"}})
	must(b.t, err)
	return id
}

// A failingStore is a store in memory. Its records and attempts cannot be read while it fails.
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

func (s *failingStore) ListSubscription(ctx context.Context, id string) (engine.Listed, bool, error) {
	if err := s.failing(); err != nil {
		return engine.Listed{}, false, err
	}
	return s.Store.ListSubscription(ctx, id)
}

func (s *failingStore) ListSubscriptions(ctx context.Context, after string, limit int, failing bool) ([]engine.Listed, error) {
	if err := s.failing(); err != nil {
		return nil, err
	}
	return s.Store.ListSubscriptions(ctx, after, limit, failing)
}

type resolver struct{}

func (resolver) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, ctx.Err()
}

// A receiver serves all callbacks of a test. It accepts all requests unless handle responds differently.
type receiver struct {
	net    *memnet.Network
	mu     sync.Mutex
	got    []string
	ids    []string // webhook-id of each
	handle func(w http.ResponseWriter)
}

// receive starts a receiver that runs until the test ends.
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
		Type    string            `json:"type"`
		EventID string            `json:"eventId"`
		Error   *wire.ErrorObject `json:"error"`
	}
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
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
	}
}

func (r *receiver) on(f func(w http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handle = f
}

func refuse(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }

// all returns the requests since the last call.
func (r *receiver) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got, r.ids = nil, nil
	return got
}

// webhookIDs returns the webhook-id of each request since the last call of all.
func (r *receiver) webhookIDs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids)
}

// want reports an error unless exactly these requests arrived since the last call.
func (r *receiver) want(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := r.all(); !slices.Equal(got, want) {
		t.Errorf("%s: %q came, want %q", what, got, want)
	}
}

// settle waits for a duration, and then until the bubble is idle.
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

// missing reports an error unless err is a NotFound error.
func missing(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, events.ErrNotFound) {
		t.Errorf("%s: %v, want not found", what, err)
	}
}

func errorOf[T any](_ T, err error) error { return err }
