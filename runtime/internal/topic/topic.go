// Package topic is the log kernel: an event type's log with its readers. An entry gets its position in
// the log's append; a reader has a position of its own and goes on from it, so that replay and live
// delivery are the same loop of reading, matching, transforming and writing. A reader at the head
// parks in the match index (index.go) until an append concerns it.
//
// Start at [Topic] and [Reader]. What the kernel knows of an event type is [Type], of a subscription
// [Arguments], of an occurrence for a subscription [Outcome].
package topic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Topic is a log with its readers: those that wait at the head are parked in the match index,
// and an append wakes the ones that it concerns.
type Topic struct {
	options  Options
	life     atomic.Pointer[life] // never nil once the topic is open
	renewing sync.Mutex           // one renewal at a time

	mu      sync.Mutex
	typ     *Type // readers attached here have arguments of it
	head    store.Position
	index   index
	pending map[string][]*prepared // by eventId
	count   int64                  // entries that were appended
	rate    rate

	floor    atomic.Uint64             // entries up to it are treated as evicted
	advanced atomic.Pointer[Advancing] // told of appends
}

// A life is the log in one epoch. A store that several processes share begins another one when its
// database was replaced by one that may lack some entries (REP-19).
type life struct {
	log      store.EventLog
	epoch    uint64
	began    time.Time
	cursorOf func(typ *Type, e *store.Entry) []byte // the cursor after an entry, as JSON
	head     store.Position                         // as Appended told; guarded by Topic.mu
	records  recordCache
	budget   recordBudget
	proofs   proofCache
}

// An Advancing is told of appends, under the topic's lock: it must not block.
type Advancing interface{ Advanced() }

// Options say how a topic keeps its log.
type Options struct {
	// Open opens the log, whose Appended callback is appended.
	Open func(appended func([]store.Entry)) (store.EventLog, error)
	// Slots is how many of the newest entries stay decoded and encoded.
	Slots int
	// CursorOf gives the cursor after an entry as JSON; nil for one of the log's position.
	CursorOf func(typ *Type, e *store.Entry) []byte
	// Apart tells that the log is none of the server's store and ends with the process.
	Apart bool
	// Kept tells what the log keeps.
	Kept Kept
	// Asked is told how long the log took for an append or a read; nil for nobody.
	Asked func(ctx context.Context, what Asked, took time.Duration, err error)
	// Strange is told of a cursor that the log has not given out, with what is wrong with it; nil for nobody.
	Strange func(what string, at store.Position)
}

// Asked is what a log was asked for.
type Asked int

// What logs are asked for.
const (
	AskedAppend Asked = iota
	AskedRead
)

// asks begins to measure what the log is asked for; the returned function ends it.
func (t *Topic) asks(ctx context.Context, what Asked) func(error) {
	f := t.options.Asked
	if f == nil {
		return func(error) {}
	}
	began := time.Now()
	return func(err error) { f(ctx, what, time.Since(began), err) }
}

// Open makes a topic of an event type's log.
func Open(typ *Type, o Options) (*Topic, error) {
	t := &Topic{typ: typ, options: o}
	if err := t.begin(); err != nil {
		return nil, err
	}
	return t, nil
}

// begin opens the log and makes it the topic's.
func (t *Topic) begin() error {
	l := &life{began: time.Now(), records: make(recordCache, t.options.Slots), cursorOf: t.options.CursorOf}
	l.budget.cache = l.records
	log, err := t.options.Open(func(entries []store.Entry) { t.appended(l, entries) })
	if err != nil {
		return err
	}
	_, head, err := log.Bounds(context.Background())
	if err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	l.log, l.epoch = log, log.Epoch()
	if l.cursorOf == nil {
		l.cursorOf = func(typ *Type, e *store.Entry) []byte {
			proof := e.Proof()
			l.proofs.put(e.Position, proof)
			return logCursor(typ, l.epoch, e.Position, proof)
		}
		proof, err := log.Proof(context.Background(), head) // which most cursors are of
		if err != nil {
			return fmt.Errorf("reading it: %w", err)
		}
		l.proofs.put(head, proof)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l.head = max(l.head, head)
	renewed := t.life.Swap(l) != nil
	t.head = l.head
	if !renewed {
		return nil
	}
	for p := t.floor.Load(); p > uint64(l.head); p = t.floor.Load() { // it counted what is gone
		t.floor.CompareAndSwap(p, uint64(l.head))
	}
	t.index.each(func(r *Reader) { r.bell.Ring() })
	return nil
}

// Renew goes on with the log's new epoch if the present one is over. Readers begin again at the oldest
// entry, with a gap, as cursors of the old epoch do (CUR-7).
func (t *Topic) Renew(ctx context.Context) error {
	l := t.life.Load()
	_, _, err := l.log.Bounds(ctx)
	return t.renewed(l, err)
}

// renewed returns nil when err tells that the life is over and another one has begun.
func (t *Topic) renewed(old *life, err error) error {
	if !errors.Is(err, engine.ErrNewEpoch) {
		return err
	}
	t.renewing.Lock()
	defer t.renewing.Unlock()
	if t.life.Load() != old {
		return nil
	}
	if again := t.begin(); again != nil {
		return fmt.Errorf("%w; opening it again: %w", err, again)
	}
	return nil
}

// Apart tells that the log is none of the server's store: another process has another one.
func (t *Topic) Apart() bool { return t.options.Apart }

// Epoch is the log's.
func (t *Topic) Epoch() uint64 { return t.life.Load().epoch }

// Head is the position of the last entry that readers were told of.
func (t *Topic) Head() store.Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head
}

// Advancing makes l be told of appends from now on; nil for nobody.
func (t *Topic) Advancing(l Advancing) {
	if l == nil {
		t.advanced.Store(nil)
		return
	}
	t.advanced.Store(&l)
}

// prepared is what an append needs of a payload and what takes time to find out.
type prepared struct {
	typ    *Type
	data   json.RawMessage
	places []place
}

// Append appends an entry; decoded is its data decoded, nil when nobody has done so. With once an
// entry that repeats what the log holds is not appended again: fresh is false then, and the data
// decides whether that is an error (OCC-5). What is evicted or of another schema is not repeated.
func (t *Topic) Append(ctx context.Context, e store.Entry, decoded any, once bool) (fresh bool, err error) {
	defer t.expect(&e, decoded)()
	for {
		l := t.life.Load()
		answered := t.asks(ctx, AskedAppend)
		if once {
			_, fresh, err = l.log.AppendOnce(ctx, e, t.Floor())
		} else {
			fresh = true
			_, err = l.log.Append(ctx, e)
		}
		answered(err)
		if !errors.Is(err, engine.ErrNewEpoch) || errors.Is(err, store.ErrUncertain) {
			return fresh, err
		}
		if err := t.renewed(l, err); err != nil { // nothing was appended
			return false, err
		}
	}
}

// expect prepares for the append of e that follows, until forget is called: how long that takes is up
// to the payload, so it is done before the append lock is held.
func (t *Topic) expect(e *store.Entry, decoded any) (forget func()) {
	typ := t.current()
	if len(typ.Rules) == 0 {
		return func() {}
	}
	p := &prepared{typ, e.Data, placesOf(typ, e.Data, decoded)}
	id := e.EventID
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending == nil {
		t.pending = map[string][]*prepared{}
	}
	t.pending[id] = append(t.pending[id], p)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		rest := slices.DeleteFunc(t.pending[id], func(o *prepared) bool { return o == p })
		if len(rest) == 0 {
			delete(t.pending, id)
		} else {
			t.pending[id] = rest
		}
	}
}

// expected is what was prepared for the entry; the zero value when nobody expected it. Emits of one
// eventId may be under way at once, and only one of them is appended.
func (t *Topic) expected(e *store.Entry) prepared {
	for _, p := range t.pending[e.EventID] {
		if bytes.Equal(p.data, e.Data) {
			return *p
		}
	}
	return prepared{}
}

// appended is the log's Appended callback: it moves the head and wakes the readers that the entries concern.
func (t *Topic) appended(l *life, entries []store.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.life.Load() != l { // not yet the topic's, as others append while it is opened, or not any more
		l.head = entries[len(entries)-1].Position
		return
	}
	t.count += int64(len(entries))
	t.rate.add(time.Now(), len(entries))
	for i := range entries {
		e := &entries[i]
		p := t.expected(e)
		if p.typ != t.typ { // nobody expected it, or the type was changed meanwhile
			p = prepared{typ: t.typ, places: placesOf(t.typ, e.Data, nil)}
		}
		rec := recordAt(p.typ, *e, l.cursorOf(t.typ, e), p.places)
		rec.budget = &l.budget
		l.records.put(rec)
		t.head = e.Position
		t.index.wake(rec, func(r *Reader) {
			if e.Position <= r.pos {
				t.index.park(r) // it has read this one before we were told
				return
			}
			r.first = e.Position
			r.bell.Ring()
		})
	}
	if l := t.advanced.Load(); l != nil {
		(*l).Advanced()
	}
}

// Redefine makes typ the type of the topic. All readers leave the index and are woken; they
// park again with arguments of it. With reset, entries so far count as evicted.
func (t *Topic) Redefine(typ *Type, reset bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.typ = typ
	if reset {
		t.Raise(t.head)
	}
	var all []*Reader
	t.index.each(func(r *Reader) { all = append(all, r) })
	for _, r := range all {
		r.settle()
		t.index.detach(r)
		r.bell.Ring()
	}
}

// SignalAll wakes every attached reader to look at its circumstances.
func (t *Topic) SignalAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.index.each(func(r *Reader) { r.bell.Ring() })
}

// Raise makes everything up to p count as evicted.
func (t *Topic) Raise(p store.Position) {
	for {
		old := t.floor.Load()
		if uint64(p) <= old || t.floor.CompareAndSwap(old, uint64(p)) {
			return
		}
	}
}

// Floor is up to where entries count as evicted.
func (t *Topic) Floor() store.Position { return store.Position(t.floor.Load()) }

// Bounds are the log's, with the floor applied. While the log cannot say what it still holds, they
// are what the topic knows by itself: reading on tells of the failure.
func (t *Topic) Bounds() (oldest, head store.Position) {
	oldest, head, err := t.life.Load().log.Bounds(context.Background())
	if err != nil {
		oldest, head = 1, t.Head()
	}
	return max(oldest, t.Floor()+1), head
}

// Shared tells that other processes append to the log too: what they append is met like what this one
// does (REP-2).
func (t *Topic) Shared() bool {
	_, ok := t.life.Load().log.(engine.Log)
	return ok
}

// reach makes the topic know of position p if the log has it: another process may have told a caller
// of what this one has not seen yet (REP-3).
func (t *Topic) reach(ctx context.Context, p store.Position) error {
	l := t.life.Load()
	log, ok := l.log.(engine.Log)
	if !ok || p <= t.Head() {
		return nil
	}
	_, err := log.CatchUp(ctx, p)
	if err = t.renewed(l, err); err != nil {
		return fmt.Errorf("reading the head of the log of %s: %w", t.current().Name, err)
	}
	return nil
}

// Caught returns nil when the topic has been told of all that the log held at some time within the last
// fresh; where it was not, the store is asked. Without other processes it always was.
func (t *Topic) Caught(ctx context.Context, fresh time.Duration) error {
	if seen, ok := t.Seen(); !ok || time.Since(seen) < fresh {
		return nil
	}
	_, err := t.Latest(ctx)
	return err
}

// Seen is when the log was last looked at for what other processes append; ok is false where none do.
func (t *Topic) Seen() (at time.Time, ok bool) {
	log, ok := t.life.Load().log.(engine.Log)
	if !ok {
		return at, false
	}
	return log.Seen(), true
}

// Latest is the position of the last entry that the log has: the store's answer where others append.
func (t *Topic) Latest(ctx context.Context) (store.Position, error) {
	if err := t.reach(ctx, t.Head()+1); err != nil {
		return 0, err
	}
	return t.Head(), nil
}

func (t *Topic) current() *Type {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.typ
}

// Read is the log's Read with the floor applied.
func (t *Topic) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	return t.read(ctx, t.life.Load(), after, limit)
}

func (t *Topic) read(ctx context.Context, l *life, after store.Position, limit int) (store.Batch, error) {
	floor := t.Floor()
	gap := after < floor
	answered := t.asks(ctx, AskedRead)
	b, err := l.log.Read(ctx, max(after, floor), limit)
	answered(err)
	if gap {
		b.Gap = true
	}
	b.Oldest = max(b.Oldest, floor+1)
	return b, err
}

// record returns the entry's record under typ, from the cache when it is there.
func (l *life) record(e *store.Entry, typ *Type) *record {
	if rec := l.records.get(e.Position, typ); rec != nil {
		return rec
	}
	rec := newRecord(typ, *e, l.cursorOf(typ, e))
	rec.budget = &l.budget
	l.records.put(rec)
	return rec
}
