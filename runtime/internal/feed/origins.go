package feed

import "sync"

// An originTracker decides which source delivers an occurrence of a type with both sources. Each feed delivers it from
// the source that reported it first. So an occurrence that is emitted and also found by a check is delivered only once,
// even if the check returns it repeatedly (SRV-1).
type originTracker struct {
	mu      sync.Mutex
	emits   recentSet[string]
	checked recentSet[checkedID]
}

type checkedID struct {
	feed uint64
	id   string
}

// emitted records the eventId of an occurrence before it is appended and reports whether the ID is new.
func (o *originTracker) emitted(id string) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first = !o.emits.has(id)
	o.emits.add(id)
	return first
}

// forget reverts emitted for a new ID if the append fails.
func (o *originTracker) forget(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.emits.remove(id)
}

// fromCheck reports whether the feed delivers the occurrence with the given eventId from the check.
func (o *originTracker) fromCheck(feed uint64, id string) bool {
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

// fromEmit reports whether the feed delivers the occurrence with the given eventId from the emitter.
func (o *originTracker) fromEmit(feed uint64, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.checked.has(checkedID{feed, id})
}

// A recentSet contains at least the last recentSize values added.
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
