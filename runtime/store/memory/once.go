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
	// Entries never change, so their payloads can be compared without the lock.
	return stands.Position, false, store.Repeats(stands.Position, stands.Data, e.Data)
}

// appendOnce appends e and sets its position, or finds the existing entry.
func (l *Log) appendOnce(ctx context.Context, e *store.Entry, above store.Position) (stands store.Entry, found bool, err error) {
	k := keyOf(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.checkOpen(ctx); err != nil {
		return store.Entry{}, false, err
	}
	now := time.Now()
	l.evict(now)
	if l.ids == nil { // entries that Append has added count as well (OCC-5)
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

// An idKey identifies an occurrence: an EventID for a set of targets.
type idKey struct{ id, audience string }

func keyOf(e *store.Entry) idKey { return idKey{e.EventID, store.Audience(e.Targets)} }

// An idIndex finds the last position of a key among the retained entries. It has two generations, and drops the older
// one once the younger one covers all retained entries. Eviction therefore does not need to update it. It can therefore
// return the position of an evicted entry.
type idIndex struct {
	young, old map[idKey]store.Position
	since      store.Position // the first position in young, which has all later ones
}

// generationMin is the minimum number of positions in a generation. It prevents short logs from starting generations
// too often.
const generationMin = 1024

// put adds the key of a new entry. The argument retained is the number of retained entries before it. Keys must be
// added at consecutive positions.
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
