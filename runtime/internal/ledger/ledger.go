// Package ledger stores the runtime's state as records of an [engine.Engine]: webhook subscriptions and their progress,
// quotas, verifications, leases and shards, attempts, and what operators have ordered. A step that changes several
// records is one commit. The package serves every engine; ledgertest is its suite.
//
// # Records
//
//	sub/<id>                          the desired state of a subscription; any process writes it
//	pro/<topic>/<n>/<id>              the status of its deliveries; the owner of the shard writes it
//	use/<principal>/<url>/<id>        an index of subscriptions
//	quota/<kind>/<principal>/<stripe> a part of a counter; "all" in place of a principal counts the records of all
//	ver/<principal>/<url>             a verification of an endpoint
//	revoked/<principal>               until when which subscriptions of a principal are revoked
//	topic/<topic>                     the number of shards of an event type
//	gap/, raise/, recheck/<topic>     the latest order about an event type, with a number
//	closed/<topic>                    the error with which an event type was terminated
//	schema/<topic>/<ordinal>          the schemas that an event type has had
//	mark/<topic>/<n>                  the position up to which the log was offered to a shard
//	att/<id>/<time>                   the attempts of one update, the latest first
//	act/<key>                         an operator's action, so that a repeated request is done once
//	src/<source>                      how far MCPE has read a source of occurrences
//	sch/<id>                          a schedule of MCPE, with the bounds of its queue
//	que/<queue>/<sequence>            occurrences in the queue of a schedule
//	cur/<key>                         the cursor of a client's subscription, and what of rcv the application has taken
//	cb/<key>                          the callback of a client's webhook subscription
//	rcv/<key>/...                     webhook bodies of a client, their latest sequence, and an index of event IDs
//	dl/...                            dead letters of a client, their latest sequence, their numbers and indexes
//	live/lease/<lease>                a running process
//	live/shard/<topic>/<n>            the lease that holds a shard
//	key/check                         a text that was encrypted with the key of the store
//
// Principals, URLs, sources, and the keys of actions and clients are hashed. A subscription has two records, as a Kubernetes object has spec and
// status. A commit that changes sub tells the key of pro, which names the shard.
//
// # Ownership
//
// The revision of a shard's record is its fencing token: each commit of an [Owned] guards it, so it either precedes the
// next claim or is refused with [ErrFenced]. The owner alone writes pro, mark and att of its shard, except that a
// subscription begins and ends with both records.
//
// Start with [Open], [Ledger.Admit] and [Owned]; [Ledger.Client] and [Ledger.Schedules] return the state of clients and of
// MCPE.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Ledger reads and writes the runtime's state. It is safe for concurrent use.
type Ledger struct {
	e        engine.Engine
	box      sealed.Box
	log      *slog.Logger
	bounds   AttemptBounds
	stripes  *stripeSet
	attempts attemptCount
	hourly   hourly

	mu     sync.Mutex
	logged map[string]struct{} // keys of records that cannot be read
}

// Options configure a [Ledger].
type Options struct {
	// Key encrypts the secrets of subscriptions: 16, 24 or 32 bytes. Without a key they are stored in plain text, so an
	// engine that is durable needs one. See [Ledger.Reseal] for a change of keys.
	Key []byte
	// OldKeys open what was encrypted with an earlier Key.
	OldKeys [][]byte
	// Attempts bounds the attempts that are kept. The ledger stores none if PerSubscription is 0.
	Attempts AttemptBounds
	// Logger receives the records that cannot be read. The default is [slog.Default].
	Logger *slog.Logger
}

// Open returns a ledger on an engine and enters the current life of its store. It returns an error that matches
// [sealed.ErrKey] if the store was encrypted with a key that is not among the given ones.
func Open(ctx context.Context, e engine.Engine, o Options) (*Ledger, error) {
	box, err := sealed.New(o.Key, o.OldKeys...)
	if err != nil {
		return nil, err
	}
	l := &Ledger{e: e, box: box, log: o.Logger, bounds: o.Attempts, stripes: newStripeSet(), logged: map[string]struct{}{}}
	if l.log == nil {
		l.log = slog.Default()
	}
	if _, err := e.Enter(ctx); err != nil {
		return nil, err
	}
	if err := l.checkKey(ctx); err != nil {
		return nil, fmt.Errorf("checking the encryption key of the store: %w", err)
	}
	return l, nil
}

// Engine returns the engine of the ledger, for its logs, its clock and its changes.
func (l *Ledger) Engine() engine.Engine { return l.e }

// A reading holds the few records that a step has read.
type reading []store.Record

// of returns the record of a key that was read.
func (r reading) of(key string) store.Record {
	for i := range r {
		if r[i].Key == key {
			return r[i]
		}
	}
	panic("ledger: a step uses the key " + key + " without reading it")
}

// missing returns the keys that were not read.
func (r reading) missing(keys ...string) (missing []string) {
	for _, k := range keys {
		if !slices.ContainsFunc(r, func(x store.Record) bool { return x.Key == k }) {
			missing = append(missing, k)
		}
	}
	return missing
}

// write returns a write that replaces the record that was read. A nil value deletes it.
func (r reading) write(key string, v store.Value) store.Write {
	return store.Write{Key: key, On: r.of(key).Revision, Value: v}
}

// A step decides, by the records that were read, what to commit. If it returns no commit, its decision is final.
type step func(r reading) (*store.Commit, error)

// A needError is returned by a step that depends on more records than were read.
type needError struct{ keys []string }

func (e *needError) Error() string { return fmt.Sprintf("ledger: the step needs %q", e.keys) }

// change reads keys, calls s and sends the commit that s returns, until the commit is applied. It starts over if another
// process has changed one of the keys meanwhile. It returns the conflict if only other keys have moved, whose revisions s
// knew from elsewhere. A decision not to commit is made by [store.Latest] records. change returns the revisions of the commit,
// or nil if s has decided not to commit.
func (l *Ledger) change(ctx context.Context, keys []string, s step) ([]uint64, error) {
	for c, wait := store.Stale, firstWait; ; {
		r, err := l.e.Get(ctx, c, keys...)
		if err != nil {
			return nil, err
		}
		commit, err := s(r)
		var need *needError
		switch {
		case errors.As(err, &need):
			keys = append(slices.Clip(keys), need.keys...)
			continue
		case (commit == nil || err != nil) && c == store.Stale:
			c = store.Latest
			continue
		case commit == nil || err != nil:
			return nil, err
		}
		revisions, err := l.commit(ctx, commit)
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) || !slices.ContainsFunc(conflict.Keys, func(k string) bool { return slices.Contains(keys, k) }) {
			return revisions, err
		}
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
		c, wait = store.Latest, min(2*wait, maxWait)
	}
}

// deletion returns a step that deletes the record of a key, if it exists.
func deletion(key string) step {
	return func(r reading) (*store.Commit, error) {
		if r.of(key).Value == nil {
			return nil, nil
		}
		return &store.Commit{Writes: []store.Write{r.write(key, nil)}}, nil
	}
}

// firstWait and maxWait bound the pauses between two tries of a commit.
const (
	firstWait = time.Millisecond
	maxWait   = 100 * time.Millisecond
)

// commit sends a commit until its outcome is known, and sets its Call. It returns the new revisions if the commit was
// applied; a revision is 0 if another commit has replaced the record since. It returns a [*store.ConflictError] if the
// commit will never be applied. If ctx ends or the store cannot be read before that is known, the error matches
// [store.ErrUncertain].
//
// A commit looks as if it was never applied if its answer was lost and other processes have since replaced each of its
// records. A step therefore recognizes its own result by the contents of the records.
func (l *Ledger) commit(ctx context.Context, c *store.Commit) ([]uint64, error) {
	c.Call = rand.Uint64()>>1 | 1
	lost := false
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		revisions, err := l.e.Commit(ctx, c)
		if err == nil {
			return revisions, nil
		}
		lost = lost || errors.Is(err, store.ErrUncertain)
		if !lost {
			return nil, err
		}
		// If the first copy has arrived by now, the second one conflicts with it.
		revisions, applied, readErr := l.applied(ctx, c)
		switch {
		case readErr != nil:
			return nil, fmt.Errorf("%w: %w", store.ErrUncertain, readErr)
		case applied:
			return revisions, nil
		case errors.Is(err, store.ErrConflict):
			return nil, err
		}
		if err := pause(ctx, wait); err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrUncertain, err)
		}
	}
}

// applied looks for the Call of a commit in the records that it writes.
func (l *Ledger) applied(ctx context.Context, c *store.Commit) (revisions []uint64, applied bool, err error) {
	keys := make([]string, len(c.Writes))
	for i, w := range c.Writes {
		keys[i] = w.Key
	}
	found, err := l.get(ctx, store.Latest, keys)
	if err != nil {
		return nil, false, err
	}
	revisions = make([]uint64, len(found))
	for i, r := range found {
		if r.Call == c.Call {
			revisions[i], applied = r.Revision, true
		}
	}
	return revisions, applied, nil
}

// get is Get for any number of keys. Each [store.MaxGet] of them are from one moment.
func (l *Ledger) get(ctx context.Context, c store.Consistency, keys []string) ([]store.Record, error) {
	if len(keys) <= store.MaxGet {
		if len(keys) == 0 {
			return nil, nil
		}
		return l.e.Get(ctx, c, keys...)
	}
	all := make([]store.Record, 0, len(keys))
	for some := range slices.Chunk(keys, store.MaxGet) {
		found, err := l.e.Get(ctx, c, some...)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// pause waits for about the given time.
func pause(ctx context.Context, wait time.Duration) error {
	t := time.NewTimer(wait/2 + rand.N(wait))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// scanPage is the number of records that a scan reads at once: their records and those of a second key each fit one Get.
const scanPage = store.MaxGet / 2

// pages calls f with the records under a prefix, some at a time.
func (l *Ledger) pages(ctx context.Context, prefix string, f func(page []store.Record) error) error {
	for after := ""; ; {
		page, err := l.e.Scan(ctx, prefix, after, scanPage)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := f(page); err != nil {
			return err
		}
		after = page[len(page)-1].Key
	}
}

// each calls f for each record under a prefix. It logs a record that f cannot read, and goes on.
func (l *Ledger) each(ctx context.Context, prefix string, f func(r store.Record) error) error {
	return l.pages(ctx, prefix, func(page []store.Record) error {
		for _, r := range page {
			if err := f(r); err != nil && !l.passOver(r.Key, err) {
				return err
			}
		}
		return nil
	})
}

// maxLogged bounds the keys that a process remembers to have logged.
const maxLogged = 1000

// passOver logs an error that only the named record has, once, and reports whether it is such an error.
func (l *Ledger) passOver(key string, err error) bool {
	if unreadable(err) == "" {
		return false
	}
	l.mu.Lock()
	_, known := l.logged[key]
	if len(l.logged) >= maxLogged {
		clear(l.logged)
	}
	l.logged[key] = struct{}{}
	l.mu.Unlock()
	if !known {
		l.log.Error("mcp events: a record of the store cannot be read and is left out", "key", key, "error", err)
	}
	return true
}

// A turn lets one goroutine at a time do something that takes a while.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, or for the end of ctx.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }
