package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
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

var errTest = errors.New("the store is away")

// A process stands for a server. It is the [Host] of its processes, and has no hooks of an author.
type process struct {
	Processes
	t        *testing.T
	webhooks *subscriber.Subscriptions

	mu       sync.Mutex
	types    []*eventtypetest.Type
	notes    []string
	rejected int
	refuse   error
	logged   strings.Builder
}

// start creates a process that has not joined, with webhook subscriptions unless it only emits.
func start(t *testing.T, st store.Store, change func(*Options)) (*process, error) {
	t.Helper()
	p := &process{t: t}
	log := &fault.Log{Logger: slog.New(slog.NewTextHandler(p, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	o := Options{Host: p, Store: st, Log: log, Logger: log.Logger}
	o.Outbox, _ = st.(engine.Outbox)
	if change != nil {
		change(&o)
	}
	var err error
	if p.Processes, err = New(t.Context(), o); err != nil || o.EmitOnly {
		return p, err
	}
	records, of, err := p.Records(t.Context())
	if err != nil {
		return p, err
	}
	guard, err := netguard.New(netguard.Options{Resolver: nowhere{}})
	must(t, err)
	p.webhooks, err = subscriber.New(subscriber.Options{Host: webhookHost{p}, Store: records, Cluster: of, Guard: guard, Log: log,
		Terms: subscriber.Terms{Min: time.Minute, Default: time.Hour, Max: time.Hour}, Quota: subscriber.Quota{PerPrincipal: 100, Total: 100},
		Verify: verify.Options{Limits: verify.Limits{PerPrincipal: 100, Total: 100}, Telemetry: telemetry.Discard}, Delivery: delivery.Options{Logger: log.Logger}})
	must(t, err)
	return p, nil
}

// join creates a process that has joined. It is shut down when the test ends.
func join(t *testing.T, st store.Store, change func(*Options)) *process {
	t.Helper()
	p, err := start(t, st, change)
	must(t, err)
	must(t, p.Join(p.webhooks))
	t.Cleanup(func() { p.end() })
	return p
}

func (p *process) end() {
	must(p.t, p.Shutdown(context.Background()))
	if p.webhooks != nil {
		must(p.t, p.webhooks.Shutdown(context.Background()))
	}
}

// register registers an event type with schemas, whose log is the store's.
func (p *process) register(name, fingerprint string) *eventtypetest.Type {
	p.t.Helper()
	return p.add(name, eventtypetest.Options{Fingerprint: fingerprint})
}

func (p *process) add(name string, o eventtypetest.Options) *eventtypetest.Type {
	p.t.Helper()
	o.Emits = true
	o.Log = func(name string, o store.LogOptions) (store.EventLog, error) {
		return p.store().OpenLog(context.Background(), name, o)
	}
	e := eventtypetest.New(p.t, name, o)
	p.mu.Lock()
	p.types = append(p.types, e)
	p.mu.Unlock()
	must(p.t, p.Serve(e, func() { p.note("restored %s", name) }))
	p.Hurry()
	return e
}

func (p *process) store() store.Store {
	if m, ok := p.Processes.(*Many); ok {
		return m.o.Store
	}
	return p.Processes.(*Single).o.Store
}

// owns returns the number of a topic's shards that it owns.
func (p *process) owns(topic string) int {
	_, owned, _ := p.Status()
	return owned[topic]
}

func (p *process) note(format string, a ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, a...))
}

// want waits until all goroutines are idle, and fails unless exactly want was noted since the last call.
func (p *process) want(what string, want ...string) {
	p.t.Helper()
	settle(3 * time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.notes, want) {
		p.t.Errorf("%s: %q, want %q", what, p.notes, want)
	}
	p.notes = nil
}

// Write records the log.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logged.Write(b)
}

// log returns the log since the last call.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.logged.Reset()
	return p.logged.String()
}

func (p *process) EventTypes() (all []eventtype.Type) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.types {
		all = append(all, e)
	}
	return all
}

func (p *process) Type(event string) (eventtype.Type, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.types {
		if e.Name() == event {
			return e, true
		}
	}
	return nil, false
}

// version has the fingerprint as the type of the payload's member x.
func version(fingerprint string) engine.SchemaVersion {
	return engine.SchemaVersion{Fingerprint: fingerprint, InputSchema: json.RawMessage(`{"type":"object"}`),
		PayloadSchema: fmt.Appendf(nil, `{"type":"object","properties":{"x":{"type":%q}},"required":["x"]}`, fingerprint)}
}

func (p *process) Refuses(eventtype.Definition, *store.Entry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse
}

func (p *process) Report() json.RawMessage { return nil }

func (p *process) Sequenced(done engine.Sequenced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rejected += done.Rejected
}

func (p *process) Obeyer(*orders.Log) orders.Host { return obeyer{p} }

// nowhere resolves no hosts: nothing is sent.
type nowhere struct{}

func (nowhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, errTest
}

// A webhookHost is a process as its webhook subscriptions see it: without hooks and limits.
type webhookHost struct{ p *process }

func (h webhookHost) Type(event string) (eventtype.Type, bool) { return h.p.Type(event) }
func (h webhookHost) Join(context.Context, eventtype.Subscription, eventtype.Arguments) error {
	return nil
}
func (h webhookHost) Leave(eventtype.Subscription, eventtype.Arguments)                  {}
func (h webhookHost) Release(eventtype.Subscription, eventtype.Arguments)                {}
func (h webhookHost) Asks(eventtype.Arguments) bool                                      { return false }
func (h webhookHost) Take(string, int) error                                             { return nil }
func (h webhookHost) Keep(string, int)                                                   {}
func (h webhookHost) Give(string, int)                                                   {}
func (h webhookHost) Current() bool                                                      { return true }
func (h webhookHost) Refused(context.Context, string, eventtype.Arguments) *events.Error { return nil }

// An obeyer records orders.
type obeyer struct{ p *process }

func (o obeyer) Do(_ context.Context, what orders.Order) error {
	o.p.note("do %s %s", what.Kind, what.Principal)
	return nil
}
func (o obeyer) Prepare(orders.Order)               {}
func (o obeyer) Changed(id string, of engine.Shard) { o.p.note("changed %s of %v", id, of) }
func (o obeyer) Recall(_ context.Context, event string) error {
	o.p.note("recall %s", event)
	return nil
}
func (o obeyer) EventTypes() []string          { return nil }
func (o obeyer) Compare(context.Context) error { return nil }
func (o obeyer) RecheckAll(context.Context)    {}

// failing makes a store fail some of its steps.
func failing(st *memcluster.Store, op string) {
	st.Inject(memcluster.Faults{Fail: func(step string) error {
		if strings.HasPrefix(step, op) {
			return errTest
		}
		return nil
	}})
}

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
