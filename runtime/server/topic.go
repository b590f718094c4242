package server

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A topic is a log with its readers: those that wait at the head are parked in the match index,
// and an append wakes the ones that it concerns.
type topic struct {
	log store.EventLog
	// cursorOf gives the cursor after an entry as JSON.
	cursorOf func(d *definition, e *store.Entry) []byte

	mu      sync.Mutex
	def     *definition // readers attached here have arguments of it
	head    store.Position
	index   index
	pending map[*byte]prepared

	floor    atomic.Uint64                // entries up to it are treated as evicted
	advanced atomic.Pointer[delivery.Log] // told of appends; nil without webhooks
	records  recordCache
	variants variantBudget
}

func newTopic(d *definition, records int) *topic {
	t := &topic{def: d, records: make(recordCache, records)}
	t.variants.cache = t.records
	return t
}

// reader is one consumer's place in a topic. pos and args are its goroutine's; the rest belongs
// to the topic's lock. wake is a hint of capacity 1, shared with the reader's other signals; bell,
// where it is set, is rung instead, under the topic's lock.
type reader struct {
	topic *topic
	args  *arguments
	id    string // of the subscription
	wake  chan struct{}
	bell  ringer
	pos   store.Position // last passed

	bucket *bucket        // nil while not attached
	twin   int            // in index.byID[id], while attached
	slot   int            // in bucket.parked, -1 while not parked
	parked bool           // since the last park, woken or not
	first  store.Position // first match since parking, 0 for none
}

// A ringer is told that there may be something to read. It must not block.
type ringer interface{ ring() }

func (r *reader) signal() {
	if r.bell != nil {
		r.bell.ring()
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// prepared is what an append needs of a payload and what takes time to find out.
type prepared struct {
	def    *definition
	places []place
}

// expect prepares for the append of data that follows: how long that takes is up to the payload, so
// it is done before the append lock is held. decoded is data decoded, nil when nobody has done so.
func (t *topic) expect(data json.RawMessage, decoded any) {
	t.mu.Lock()
	d := t.def
	t.mu.Unlock()
	p := prepared{d, placesOf(d, data, decoded)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending == nil {
		t.pending = map[*byte]prepared{}
	}
	t.pending[&data[0]] = p
}

// forget drops what expect kept when the append failed.
func (t *topic) forget(data json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pending, &data[0])
}

// appended is the log's Appended callback: it moves the head and wakes whom the entries concern.
func (t *topic) appended(entries []store.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		var p prepared
		if len(t.pending) > 0 {
			p = t.pending[&e.Data[0]]
			delete(t.pending, &e.Data[0])
		}
		if p.def != t.def { // nobody expected it, or the type was changed meanwhile
			p = prepared{t.def, placesOf(t.def, e.Data, nil)}
		}
		rec := recordAt(p.def, *e, t.cursorOf(t.def, e), p.places)
		rec.budget = &t.variants
		t.records.put(rec)
		t.head = e.Position
		t.index.wake(rec, func(r *reader) {
			if e.Position <= r.pos {
				t.index.park(r) // it has read this one before we were told
				return
			}
			r.first = e.Position
			r.signal()
		})
	}
	if l := t.advanced.Load(); l != nil {
		l.Advanced()
	}
}

// detach takes r out of the index; it is a no-op for one that is not in it.
func (t *topic) detach(r *reader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle(r)
	if r.bucket != nil {
		t.index.detach(r)
	}
}

// park lets r wait at the head; false when it is not there, or when its arguments are of another
// definition. A reader enters the index when it parks for the first time.
func (t *topic) park(r *reader) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.head > r.pos || r.args.def != t.def {
		return false
	}
	if r.bucket == nil {
		r.slot = -1
		t.index.attach(r)
	}
	r.first, r.parked = 0, true
	t.index.park(r)
	return true
}

// unpark ends the waiting: r jumps to just before its first match or, without one, to the head.
func (t *topic) unpark(r *reader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle(r)
}

func (t *topic) settle(r *reader) {
	if !r.parked {
		return
	}
	if r.slot >= 0 {
		t.index.unpark(r)
	}
	if r.first > 0 {
		r.pos = max(r.pos, r.first-1)
	} else {
		r.pos = max(r.pos, t.head)
	}
	r.first, r.parked = 0, false
}

// redefine makes d the definition of the topic. All readers leave the index and are woken; they
// park again with arguments of d. With reset, entries so far count as evicted.
func (t *topic) redefine(d *definition, reset bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.def = d
	if reset {
		t.raise(t.head)
	}
	var all []*reader
	t.index.each(func(r *reader) { all = append(all, r) })
	for _, r := range all {
		t.settle(r)
		t.index.detach(r)
		r.signal()
	}
}

// signalAll wakes every attached reader to look at its circumstances.
func (t *topic) signalAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.index.each(func(r *reader) { r.signal() })
}

// raise makes everything up to p count as evicted.
func (t *topic) raise(p store.Position) {
	for {
		old := t.floor.Load()
		if uint64(p) <= old || t.floor.CompareAndSwap(old, uint64(p)) {
			return
		}
	}
}

// bounds are the log's, with the floor applied. While the log cannot say what it still holds, they
// are what the topic knows by itself: reading on tells of the failure.
func (t *topic) bounds() (oldest, head store.Position) {
	oldest, head, err := t.log.Bounds(context.Background())
	if err != nil {
		t.mu.Lock()
		oldest, head = 1, t.head
		t.mu.Unlock()
	}
	return max(oldest, store.Position(t.floor.Load())+1), head
}

// read is the log's Read with the floor applied.
func (t *topic) read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	floor := store.Position(t.floor.Load())
	gap := after < floor
	b, err := t.log.Read(ctx, max(after, floor), limit)
	if gap {
		b.Gap = true
	}
	b.Oldest = max(b.Oldest, floor+1)
	return b, err
}

// record returns the entry's record under d, from the cache when it is there.
func (t *topic) record(e *store.Entry, d *definition) *record {
	if rec := t.records.get(e.Position, d); rec != nil {
		return rec
	}
	rec := newRecord(d, *e, t.cursorOf(d, e))
	rec.budget = &t.variants
	t.records.put(rec)
	return rec
}
