package feed

import "sync"

// origins decides, for a type with both sources, from which source each feed delivers an eventId: from the source
// that had it first. So an occurrence that is emitted and also found by a check is delivered once, in whatever
// order and however often the check returns it (SRV-1).
type origins struct {
	mu      sync.Mutex
	emits   recentSet[string]
	checked recentSet[checkedID]
}

type checkedID struct {
	feed uint64
	id   string
}

// emitted records an eventId before it is appended and reports whether it is new.
func (o *origins) emitted(id string) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first = !o.emits.has(id)
	o.emits.add(id)
	return first
}

// forget undoes emitted after a failed append of an id that was new.
func (o *origins) forget(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.emits.remove(id)
}

// fromCheck reports whether the feed delivers the eventId from the check.
func (o *origins) fromCheck(feed uint64, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := checkedID{feed, id}
	if o.checked.has(k) {
		return true
	}
	if o.emits.has(id) {
		return false
	}
	o.checked.add(k)
	return true
}

// fromEmit reports whether the feed delivers the eventId from the emitter.
func (o *origins) fromEmit(feed uint64, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.checked.has(checkedID{feed, id})
}

// A recentSet remembers at least the last recentSize values added.
type recentSet[T comparable] struct{ young, old map[T]struct{} }

const recentSize = 8192

func (s *recentSet[T]) add(v T) {
	if len(s.young) >= recentSize || s.young == nil {
		s.young, s.old = map[T]struct{}{}, s.young
	}
	s.young[v] = struct{}{}
}

func (s *recentSet[T]) has(v T) bool {
	if _, ok := s.young[v]; ok {
		return true
	}
	_, ok := s.old[v]
	return ok
}

func (s *recentSet[T]) remove(v T) {
	delete(s.young, v)
	delete(s.old, v)
}
