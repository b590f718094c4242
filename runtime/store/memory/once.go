package memory

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// AppendOnce implements [store.EventLog].
func (l *Log) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	stands, found, err := l.appendOnce(ctx, &e, above)
	if err != nil || !found {
		return e.Position, err == nil, err
	}
	// Entries never change: the payloads are compared outside the lock.
	return stands.Position, false, store.Repeats(stands.Position, stands.Data, e.Data)
}

// appendOnce appends e and sets its position, or returns the entry that stands in its place.
func (l *Log) appendOnce(ctx context.Context, e *store.Entry, above store.Position) (stands store.Entry, found bool, err error) {
	k := keyOf(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(ctx); err != nil {
		return store.Entry{}, false, err
	}
	now := time.Now()
	l.evict(now)
	if l.ids == nil { // the first of its log: those that were appended before count too
		l.ids = &idIndex{}
		for i := l.start; i < len(l.entries); i++ {
			l.ids.put(keyOf(&l.entries[i]), l.entries[i].Position, len(l.entries)-l.start)
		}
	}
	oldest := l.oldest()
	if p, ok := l.ids.get(k); ok && p >= oldest && p > above {
		return l.entries[l.start+int(p-oldest)], true, nil
	}
	l.add(e, now)
	return store.Entry{}, false, nil
}

// An idKey is what must not stand twice: an eventId for a set of targets.
type idKey struct{ id, audience string }

func keyOf(e *store.Entry) idKey { return idKey{e.EventID, store.Audience(e.Targets)} }

// An idIndex finds the last position of a key among the retained entries. Evicting costs it
// nothing: it has two generations, and the older one goes as a whole once the younger one holds
// everything that is retained. So it may return a position that has been evicted.
type idIndex struct {
	young, old map[idKey]store.Position
	since      store.Position // the first in young, which holds all that came after it
}

// generationMin keeps short logs from beginning new generations all the time.
const generationMin = 1024

// put notes the key of a new entry; retained is how many entries before it the log retains.
// Positions are put in order and without holes.
func (x *idIndex) put(k idKey, p store.Position, retained int) {
	if x.young == nil || p-x.since >= store.Position(max(retained, generationMin)) {
		x.young, x.old, x.since = map[idKey]store.Position{}, x.young, p
	}
	x.young[k] = p
}

func (x *idIndex) get(k idKey) (store.Position, bool) {
	if p, ok := x.young[k]; ok {
		return p, true
	}
	p, ok := x.old[k]
	return p, ok
}
