package memlog

import "github.com/mcpe-gen/mcpe-gen/runtime/store"

// find returns the last entry with the key that is retained after position above, or nil. The first call makes the
// index, because entries that were appended without Once count, too (OCC-5).
func (l *Log) find(k idKey, above store.Position) *store.Entry {
	if l.ids == nil {
		l.ids = &idIndex{}
		for i := l.start; i < len(l.entries); i++ {
			l.ids.put(keyOf(&l.entries[i]), l.entries[i].Position, len(l.entries)-l.start)
		}
	}
	oldest := l.oldest()
	if p, ok := l.ids.get(k); ok && p >= oldest && p > above {
		return &l.entries[l.start+int(p-oldest)]
	}
	return nil
}

// An idKey identifies an occurrence: an EventID for a set of targets.
type idKey struct{ id, audience string }

func keyOf(e *store.Entry) idKey { return idKey{e.EventID, store.Audience(e.Targets)} }

// An idIndex finds the last position of a key among the retained entries. It has two generations, and drops the older
// one once the younger one holds everything that is retained, so an eviction costs it nothing. It may therefore return
// the position of an evicted entry.
type idIndex struct {
	young, old map[idKey]store.Position
	since      store.Position // the first in young, which has all later ones
}

// generationMin keeps short logs from beginning new generations all the time.
const generationMin = 1024

// put adds the key of a new entry; retained is the number of entries before it that the log retains. Positions come in
// order and without holes.
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
