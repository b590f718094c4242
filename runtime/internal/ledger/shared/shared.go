// Package shared offers today's interface of a store that processes share, [domain.Shared], over a ledger and its engine,
// so that the suites of today's stores judge the ledger. It exists as long as both interfaces do, and has no users but
// tests.
//
// The ledger keeps most of the domain. These records are the package's, because the ledger has no place for them:
//
//	shared/fence                  the latest fence; the ID of a lease is its fence
//	shared/log/<name>             the options of a log that a process has opened
//	shared/state/<key>            a [domain.State]
//	shared/mark/<log>/<t>/<n>     the mark of a log for a shard of another topic
//	shared/mark/<log>             the mark of a log for the only process of a store
//
// Names are hexadecimal in keys, so a scan is in the order of the names. Start with [Open].
package shared

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Store is a ledger with the methods of today's stores. The embedded Ledger has those whose form is the same in both.
type Store struct {
	*ledger.Ledger
	e       *entered
	durable bool

	opening chan struct{} // held for one opening of a log; not a mutex, because an engine may wait
	logs    map[string]engine.Log

	mu    sync.Mutex // held for one claim of the only process of a store
	lease *ledger.Lease
	holds map[domain.Shard]ledger.Hold
}

var (
	_ domain.Shared   = (*Store)(nil)
	_ domain.Attempts = (*Store)(nil)
	_ domain.Actions  = (*Store)(nil)
	_ store.Pinger    = (*Store)(nil)
)

// forever is a duration that no test reaches, and unbounded are bounds that delete nothing: the callers of today's stores
// give the bounds to [Store.TrimAttempts].
const forever = 100 * 365 * 24 * time.Hour

var unbounded = ledger.AttemptBounds{PerSubscription: math.MaxInt, MaxAge: forever, Total: math.MaxInt}

// Open returns a store on an engine. durable is what [Store.Durable] reports.
func Open(ctx context.Context, e engine.Engine, durable bool) (*Store, error) {
	s := &Store{
		e: &entered{Engine: e}, durable: durable,
		opening: make(chan struct{}, 1), logs: map[string]engine.Log{},
		holds: map[domain.Shard]ledger.Hold{},
	}
	var err error
	if s.Ledger, err = ledger.Open(ctx, s.e, ledger.Options{Attempts: unbounded}); err != nil {
		return nil, err
	}
	return s, nil
}

// Durable implements [store.Store].
func (s *Store) Durable() bool { return s.durable }

// Ping implements [store.Pinger].
func (s *Store) Ping(ctx context.Context) error { return s.e.Ping(ctx) }

// Close implements [store.Store]. It closes the engine.
func (s *Store) Close() error { return s.e.Close() }

// Now implements [domain.Shared].
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.e.Clock(ctx) }

// BeginEpochs implements [domain.Shared].
func (s *Store) BeginEpochs(ctx context.Context) error {
	if err := s.e.NewLife(ctx); err != nil {
		return err
	}
	_, err := s.e.Enter(ctx)
	return err
}

// Generation implements [domain.Shared]. It is the life that the process has entered.
func (s *Store) Generation() uint64 { return s.e.life.Load() }

// Retain implements [domain.Shared]. The pass is complete, whatever the limit; the engine deletes entries of logs itself.
func (s *Store) Retain(ctx context.Context, h domain.Hold, _ int) (more bool, err error) {
	if _, err := s.hold(ctx, h); err != nil {
		return false, err
	}
	return false, s.Ledger.Retain(ctx)
}

// RetainActions deletes the oldest actions beyond their number, as the retention of the ledger does.
func (s *Store) RetainActions(ctx context.Context) error { return s.Ledger.Retain(ctx) }

// An entered engine enters a new life as soon as a call fails because of it. The holds of the earlier life are over all
// the same, because the records that they guard are deleted.
type entered struct {
	engine.Engine
	life atomic.Uint64
}

// Enter implements [engine.Engine].
func (e *entered) Enter(ctx context.Context) (uint64, error) {
	life, err := e.Engine.Enter(ctx)
	if err == nil {
		e.life.Store(life)
	}
	return life, err
}

// again reports whether a call is to be repeated because the process has entered a new life.
func (e *entered) again(ctx context.Context, err error) bool {
	if !errors.Is(err, engine.ErrNewLife) {
		return false
	}
	_, err = e.Enter(ctx)
	return err == nil
}

// OpenLog implements [engine.Engine].
func (e *entered) OpenLog(ctx context.Context, name string, o store.LogOptions) (engine.Log, error) {
	for {
		l, err := e.Engine.OpenLog(ctx, name, o)
		if !e.again(ctx, err) {
			return l, err
		}
	}
}

// Commit implements [store.Records]. It adds the guard of [guarded].
func (e *entered) Commit(ctx context.Context, c *store.Commit) ([]uint64, error) {
	if g, ok := ctx.Value(guardKey{}).(store.Guard); ok && !slices.Contains(c.Guards, g) {
		with := *c
		with.Guards = append(slices.Clip(c.Guards), g)
		c = &with
	}
	for {
		revisions, err := e.Engine.Commit(ctx, c)
		if !e.again(ctx, err) {
			return revisions, err
		}
	}
}

type guardKey struct{}

// guarded returns a context whose commits guard the hold, also those of methods of the ledger that any process may call
// but that today's stores fence.
func guarded(ctx context.Context, h ledger.Hold) context.Context {
	return context.WithValue(ctx, guardKey{}, h.Guard())
}

// fenced returns [domain.ErrFenced] for a conflict with the hold, and other errors as they are.
func fenced(h ledger.Hold, err error) error {
	var conflict *store.ConflictError
	if errors.As(err, &conflict) && slices.Contains(conflict.Keys, h.Guard().Key) {
		return fmt.Errorf("%v: %w", h.Shard, domain.ErrFenced)
	}
	return err
}
