// Package topic implements the log of an event type and its readers. An entry gets its position when it is appended to
// the log. Each reader has its own position, so the same loop reads, matches, transforms and writes entries for replay
// and live delivery. A reader at the head parks in the match index (index.go) until a matching entry is appended.
//
// The main types are [Topic] and [Reader]. [Type] describes an event type, [Arguments] holds the arguments of a
// subscription, and [Outcome] is an occurrence evaluated for a subscription.
package topic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Topic is a log with its readers. Readers that wait at the head are parked in the match index. An append wakes the
// readers that the entry might match.
type Topic struct {
	options  Options
	life     atomic.Pointer[epochLog] // non-nil once the topic is open
	renewing sync.Mutex               // one renewal at a time

	mu      sync.Mutex
	typ     *Type // attached readers have arguments of this type
	head    store.Position
	index   index
	pending map[string][]*preparedPlaces // by eventId
	count   int64                        // appended entries
	rate    decayingRate

	floor    atomic.Uint64             // entries up to this position are treated as evicted
	advanced atomic.Pointer[Advancing] // notified of appends
}

// An epochLog is the log during one epoch. A shared store starts a new epoch after its database is replaced, because
// the new database might lack some entries (REP-19).
type epochLog struct {
	log      store.EventLog
	epoch    uint64
	began    time.Time
	cursorOf func(typ *Type, e *store.Entry) []byte // the cursor after an entry, as JSON
	head     store.Position                         // as reported to Appended; guarded by Topic.mu
	records  recordCache
	budget   recordBudget
	proofs   proofCache
	damage   damageMap
}

// An Advancing is a listener that is notified of appends while the topic's lock is held. Advanced must not block.
type Advancing interface{ Advanced() }

// Options configures a topic.
type Options struct {
	// Open opens the log and registers appended as its Appended callback.
	Open func(appended func([]store.Entry)) (store.EventLog, error)
	// Slots is the number of recent entries to cache in decoded and encoded form.
	Slots int
	// CursorOf returns the JSON encoding of the cursor after an entry. If it is nil, the cursor contains the position
	// in the log.
	CursorOf func(typ *Type, e *store.Entry) []byte
	// Apart reports whether the log is outside the server's store and is lost when the process exits.
	Apart bool
	// Kept describes the log's retention.
	Kept Kept
	// Asked is called with the duration and error of each append and read. It may be nil.
	Asked func(ctx context.Context, what Asked, took time.Duration, err error)
	// Strange is called with the position of each cursor that the log did not issue, and the reason. It may be nil.
	Strange func(what string, at store.Position)
	// Damaged is called once for each range of unreadable entries. It may be nil.
	Damaged func(first, last store.Position, err error)
}

// An Asked identifies an operation on a log.
type Asked int

// The operations that are measured.
const (
	AskedAppend Asked = iota
	AskedRead
)

// startMeasurement starts measuring an operation on the log. The caller must call the returned function when the
// operation has finished.
func (t *Topic) startMeasurement(ctx context.Context, what Asked) func(error) {
	f := t.options.Asked
	if f == nil {
		return func(error) {}
	}
	began := time.Now()
	return func(err error) { f(ctx, what, time.Since(began), err) }
}

// Open opens an event type's log and returns its topic.
func Open(typ *Type, o Options) (*Topic, error) {
	t := &Topic{typ: typ, options: o}
	if err := t.openLog(); err != nil {
		return nil, err
	}
	return t, nil
}

// openLog opens the log and installs it as the topic's current log.
func (t *Topic) openLog() error {
	l := &epochLog{began: time.Now(), records: make(recordCache, t.options.Slots), cursorOf: t.options.CursorOf}
	l.budget.cache = l.records
	log, err := t.options.Open(func(entries []store.Entry) { t.handleAppended(l, entries) })
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
		proof, err := log.Proof(context.Background(), head) // most cursors point to the head
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
	for p := t.floor.Load(); p > uint64(l.head); p = t.floor.Load() { // the floor referred to entries that no longer exist
		t.floor.CompareAndSwap(p, uint64(l.head))
	}
	t.index.visitReaders(func(r *Reader) { r.bell.Ring() })
	return nil
}

// Renew switches to the log's new epoch if the current epoch has ended. Readers and cursors of the old epoch restart at
// the oldest entry, with a gap (CUR-7).
func (t *Topic) Renew(ctx context.Context) error {
	l := t.life.Load()
	_, _, err := l.log.Bounds(ctx)
	return t.handleNewEpoch(l, err)
}

// handleNewEpoch opens the log's new epoch if err is engine.ErrNewEpoch, unless another goroutine has already done so.
// It then returns nil. It returns all other errors unchanged.
func (t *Topic) handleNewEpoch(old *epochLog, err error) error {
	if !errors.Is(err, engine.ErrNewEpoch) {
		return err
	}
	t.renewing.Lock()
	defer t.renewing.Unlock()
	if t.life.Load() != old {
		return nil
	}
	if again := t.openLog(); again != nil {
		return fmt.Errorf("%w; opening it again: %w", err, again)
	}
	return nil
}

// Apart reports whether the log is outside the server's store. If so, other processes have different logs.
func (t *Topic) Apart() bool { return t.options.Apart }

// Epoch returns the log's epoch.
func (t *Topic) Epoch() uint64 { return t.life.Load().epoch }

// Head returns the position of the last entry that readers have been notified about.
func (t *Topic) Head() store.Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head
}

// Advancing sets the listener that is notified of appends. A nil listener removes the current listener.
func (t *Topic) Advancing(l Advancing) {
	if l == nil {
		t.advanced.Store(nil)
		return
	}
	t.advanced.Store(&l)
}

// A preparedPlaces holds the places of a payload, which are computed before the payload is appended.
type preparedPlaces struct {
	typ    *Type
	data   json.RawMessage
	places []place
}

// Append appends an entry. If once is set and the log already contains an entry with the same eventId, Append does not
// append e. In this case, it returns false, and also a non-nil error if the data differs (OCC-5). It ignores existing
// entries that have been evicted or belong to another schema.
func (t *Topic) Append(ctx context.Context, e store.Entry, once bool) (fresh bool, err error) {
	defer t.prepare(&e)()
	for {
		l := t.life.Load()
		answered := t.startMeasurement(ctx, AskedAppend)
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
		if err := t.handleNewEpoch(l, err); err != nil { // nothing was appended
			return false, err
		}
	}
}

// prepare computes the places of e for the subsequent append and stores them until forget is called. Evaluating a large
// payload takes a long time, so prepare must be called before the append lock is acquired.
func (t *Topic) prepare(e *store.Entry) (forget func()) {
	typ := t.current()
	if len(typ.Rules) == 0 {
		return func() {}
	}
	p := &preparedPlaces{typ, e.Data, placesOf(typ, e.Data)}
	id := e.EventID
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending == nil {
		t.pending = map[string][]*preparedPlaces{}
	}
	t.pending[id] = append(t.pending[id], p)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		rest := slices.DeleteFunc(t.pending[id], func(o *preparedPlaces) bool { return o == p })
		if len(rest) == 0 {
			delete(t.pending, id)
		} else {
			t.pending[id] = rest
		}
	}
}

// preparedFor returns the prepared places of the entry, or the zero value if they were not prepared. Several emits with
// the same eventId can be in flight, but only one of them is appended.
func (t *Topic) preparedFor(e *store.Entry) preparedPlaces {
	for _, p := range t.pending[e.EventID] {
		if bytes.Equal(p.data, e.Data) {
			return *p
		}
	}
	return preparedPlaces{}
}

// handleAppended is the log's Appended callback. It moves the head and wakes the readers that the entries might match.
func (t *Topic) handleAppended(l *epochLog, entries []store.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.life.Load() != l { // l is still being opened or has ended
		l.head = entries[len(entries)-1].Position
		return
	}
	var wakes []Wake
	t.count += int64(len(entries))
	t.rate.add(time.Now(), len(entries))
	for i := range entries {
		e := &entries[i]
		p := t.preparedFor(e)
		if p.typ != t.typ { // not prepared in this process, or the type has changed since
			p = preparedPlaces{typ: t.typ, places: placesOf(t.typ, e.Data)}
		}
		rec := recordAt(p.typ, *e, l.cursorOf(t.typ, e), p.places)
		rec.budget = &l.budget
		l.records.storeIfNewer(rec)
		t.head = e.Position
		t.index.wakeMatching(rec, func(r *Reader) {
			if e.Position <= r.pos {
				t.index.park(r) // it already read this entry
				return
			}
			r.first = e.Position
			if wake, ok := r.bell.(Wake); ok {
				wakes = append(wakes, wake)
			} else {
				r.bell.Ring()
			}
		})
	}
	if len(wakes) > 0 {
		go ringAll(wakes) // the goroutines that it wakes need the locks that the append holds
	}
	if l := t.advanced.Load(); l != nil {
		(*l).Advanced()
	}
}

func ringAll(wakes []Wake) {
	for _, wake := range wakes {
		wake.Ring()
	}
}

// Redefine sets the type of the topic. It removes all readers from the index and wakes them. They park again with
// arguments of the new type. If reset is set, all existing entries are treated as evicted.
func (t *Topic) Redefine(typ *Type, reset bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.typ = typ
	if reset {
		t.Raise(t.head)
	}
	var all []*Reader
	t.index.visitReaders(func(r *Reader) { all = append(all, r) })
	for _, r := range all {
		r.settle()
		t.index.detach(r)
		r.bell.Ring()
	}
}

// SignalAll wakes every attached reader.
func (t *Topic) SignalAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.index.visitReaders(func(r *Reader) { r.bell.Ring() })
}

// Raise marks all entries up to and including p as evicted.
func (t *Topic) Raise(p store.Position) {
	for {
		old := t.floor.Load()
		if uint64(p) <= old || t.floor.CompareAndSwap(old, uint64(p)) {
			return
		}
	}
}

// Floor returns the position up to which entries are treated as evicted.
func (t *Topic) Floor() store.Position { return store.Position(t.floor.Load()) }

// Bounds returns the positions of the oldest retained entry and the head, with the floor applied. If the log fails, it
// uses the topic's last known head, and the next read returns the error.
func (t *Topic) Bounds() (oldest, head store.Position) {
	oldest, head, err := t.life.Load().log.Bounds(context.Background())
	if err != nil {
		oldest, head = 1, t.Head()
	}
	return max(oldest, t.Floor()+1), head
}

// Shared reports whether other processes can append to the log. Readers receive those entries like local entries
// (REP-2).
func (t *Topic) Shared() bool {
	_, ok := t.life.Load().log.(engine.Log)
	return ok
}

// catchUp catches up to position p if the log contains it. Another process might have issued a cursor for an entry that
// this process has not seen (REP-3).
func (t *Topic) catchUp(ctx context.Context, p store.Position) error {
	l := t.life.Load()
	log, ok := l.log.(engine.Log)
	if !ok || p <= t.Head() {
		return nil
	}
	_, err := log.CatchUp(ctx, p)
	if err = t.handleNewEpoch(l, err); err != nil {
		return fmt.Errorf("reading the head of the log of %s: %w", t.current().Name, err)
	}
	return nil
}

// Caught returns nil if the topic has caught up with the log within the period fresh. Otherwise it queries the store. A
// topic with an unshared log is always up to date.
func (t *Topic) Caught(ctx context.Context, fresh time.Duration) error {
	if seen, ok := t.Seen(); !ok || time.Since(seen) < fresh {
		return nil
	}
	_, err := t.Latest(ctx)
	return err
}

// Seen returns the time at which the log was last checked for appends by other processes. The result ok is false if the
// log is not shared.
func (t *Topic) Seen() (at time.Time, ok bool) {
	log, ok := t.life.Load().log.(engine.Log)
	if !ok {
		return at, false
	}
	return log.Seen(), true
}

// Latest returns the position of the last entry in the log. It queries the store if the log is shared.
func (t *Topic) Latest(ctx context.Context) (store.Position, error) {
	if err := t.catchUp(ctx, math.MaxInt64); err != nil { // the next position can arrive before later ones are known
		return 0, err
	}
	return t.Head(), nil
}

func (t *Topic) current() *Type {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.typ
}

// Read reads entries from the log, treating entries up to the floor as evicted.
func (t *Topic) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	return t.read(ctx, t.life.Load(), after, limit)
}

func (t *Topic) read(ctx context.Context, l *epochLog, after store.Position, limit int) (store.Batch, error) {
	floor := t.Floor()
	gap := after < floor
	answered := t.startMeasurement(ctx, AskedRead)
	b, err := t.readUndamaged(ctx, l, max(after, floor), limit)
	answered(err)
	if gap {
		b.Gap = true
	}
	b.Oldest = max(b.Oldest, floor+1)
	return b, err
}

// recordOf returns the entry's record for typ. If the record is cached, it returns the cached record.
func (l *epochLog) recordOf(e *store.Entry, typ *Type) *record {
	if rec := l.records.get(e.Position, typ); rec != nil {
		return rec
	}
	rec := newRecord(typ, *e, l.cursorOf(typ, e))
	rec.budget = &l.budget
	l.records.storeIfNewer(rec)
	return rec
}
