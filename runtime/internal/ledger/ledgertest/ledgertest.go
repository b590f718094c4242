// Package ledgertest is the suite of package ledger for every engine: [Run]. It tests the domain, and injects faults: lost
// answers, delayed commits, other processes that act at each call, and crashes before and after each call. After each test
// an audit compares all records with each other.
//
// The package makes no promise of compatibility.
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Config describes the engine under test.
type Config struct {
	// Fresh creates an empty store and returns a function that opens it, each time as another process. The suite opens
	// the store of an exclusive engine once, and simulates the processes by several ledgers.
	Fresh func(t *testing.T) (open func() engine.Engine)
}

// Run tests the ledger on an engine.
func Run(t *testing.T, c Config) {
	for _, tests := range [][]test{subscriptionTests, quotaTests, leaseTests, ownerTests, recordTests, retentionTests, secretTests, faultTests, clientTests, scheduleTests} {
		for _, tc := range tests {
			t.Run(tc.name, func(t *testing.T) { tc.run(t, c) })
		}
	}
}

// A test is a test of the suite.
type test struct {
	name string
	run  func(t *testing.T, c Config)
}

// A world is a store with its processes.
type world struct {
	open func() engine.Engine
	raw  engine.Engine // without faults
}

// world returns a fresh store. The suite audits it after the test.
func (c *Config) world(t *testing.T) *world {
	t.Helper()
	w := &world{open: c.Fresh(t)}
	w.raw = w.open()
	t.Cleanup(func() { must(t, w.raw.Close()) })
	_, err := w.raw.Enter(t.Context())
	must(t, err)
	t.Cleanup(func() { w.audit(t) })
	t.Cleanup(func() { w.auditClients(t) })
	return w
}

// A process is one of several that share a store.
type process struct {
	*ledger.Ledger
	faults *faults.Engine
	lease  *ledger.Lease
	told   map[string]int64 // the codes of the errors sent to endpoints, by subscription ID
}

const (
	ttl   = time.Minute
	topic = "ticket.created"
)

var shard = ledger.Shard{Topic: topic, Number: 1}

// bounds are bounds of attempts that only the tests of attempts reach.
var bounds = ledger.AttemptBounds{PerSubscription: 100, MaxAge: 24 * time.Hour, Total: 100_000}

// start starts a process, which may fail as the plan says.
func (w *world) start(t *testing.T, plan faults.Plan, o ledger.Options) (*process, error) {
	t.Helper()
	e := w.raw
	if !e.Exclusive() {
		e = w.open()
		t.Cleanup(func() { must(t, e.Close()) })
	}
	if o.Attempts == (ledger.AttemptBounds{}) {
		o.Attempts = bounds
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(logWriter{t}, nil))
	}
	p := &process{faults: faults.Wrap(e, plan), told: map[string]int64{}}
	var err error
	if p.Ledger, err = ledger.Open(t.Context(), p.faults, o); err != nil {
		return p, err
	}
	if _, err := p.Establish(t.Context(), topic, 2); err != nil {
		return p, err
	}
	p.lease, err = p.Join(t.Context(), ledger.Member{Name: "p", TTL: ttl})
	return p, err
}

// process starts a process without faults.
func (w *world) process(t *testing.T) *process { return w.faulty(t, faults.Plan{}) }

// faulty starts a process with faults that do not keep it from starting.
func (w *world) faulty(t *testing.T, plan faults.Plan) *process {
	t.Helper()
	p, err := w.start(t, plan, ledger.Options{})
	must(t, err)
	return p
}

// A logWriter writes logs to a test.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Log(string(b))
	return len(b), nil
}

// now returns the time of the store.
func (p *process) now(t *testing.T) time.Time {
	t.Helper()
	return ok(p.Engine().Clock(t.Context()))(t)
}

// subscription returns a subscription with a new generation.
func subscription(t *testing.T, p *process, i int, principal string) ledger.Subscription {
	t.Helper()
	return ledger.Subscription{
		ID: fmt.Sprintf("sub_%04d", i), Principal: principal, URL: fmt.Sprintf("https://receiver.example/%d", i%3), Shard: shard,
		Generation: uint64(i)<<32 + 1, Arguments: []byte(`{"severity":"P1"}`), CreatedAt: p.now(t),
		Secrets: []store.Secret{{Key: []byte("a secret of at least 24 bytes")}},
	}
}

// admit admits a subscription without quotas.
func (p *process) admit(t *testing.T, i int, principal string) ledger.Subscription {
	t.Helper()
	return ok(p.Admit(t.Context(), subscription(t, p, i, principal), store.Progress{Epoch: 7, Base: 1}, ledger.Quota{}))(t)
}

// stored returns a subscription that exists.
func (p *process) stored(t *testing.T, id string) ledger.State {
	t.Helper()
	s, there, err := p.State(t.Context(), id)
	must(t, err)
	if !there {
		t.Fatalf("the subscription %s does not exist", id)
	}
	return s
}

// claim gives the shard to the process, after it has ended the lease that holds it as if that one had expired.
func (p *process) claim(ctx context.Context) (ledger.Hold, error) {
	c, err := p.Cluster(ctx)
	if err != nil {
		return ledger.Hold{}, err
	}
	for _, h := range c.Shards {
		if h.Shard != shard {
			continue
		}
		for _, m := range c.Members {
			if m.ID == h.Lease {
				if err := p.Lease(m).Leave(ctx); err != nil {
					return ledger.Hold{}, err
				}
			}
		}
		won, err := p.lease.Claim(ctx, h)
		if err != nil {
			return ledger.Hold{}, err
		}
		if len(won) == 1 {
			return won[0], nil
		}
	}
	return ledger.Hold{}, errClaim
}

var errClaim = errors.New("the shard cannot be claimed")

// own claims the shard and returns its subscriptions.
func (p *process) own(t *testing.T) *ledger.Owned {
	t.Helper()
	return p.Own(ok(p.claim(t.Context()))(t))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ok returns a value, and fails the test on an error.
func ok[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}
