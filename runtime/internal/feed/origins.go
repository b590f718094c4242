package feed

import "sync"

// An originTracker determines which source delivers an occurrence if the event type has a check and an emitter. Each
// feed delivers it from the source that reported it first. An occurrence that is emitted and also found by a check is
// therefore delivered only once, even if the check returns it repeatedly (SRV-1).
type originTracker struct {
	mu      sync.Mutex
	emits   recentSet[string]
	checked recentSet[checkedID]
}

type checkedID struct {
	feed uint64
	id   string
}

// recordEmitted records the eventId of an occurrence before it is appended and reports whether the ID is new.
func (o *originTracker) recordEmitted(id string) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first = !o.emits.has(id)
	o.emits.add(id)
	return first
}

// forgetEmitted reverts emitted for a new ID if the append fails.
func (o *originTracker) forgetEmitted(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.emits.remove(id)
}

// deliversFromCheck reports whether the feed delivers the occurrence with the given eventId from the check.
func (o *originTracker) deliversFromCheck(feed uint64, id string) bool {
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

// deliversFromEmit reports whether the feed delivers the occurrence with the given eventId from the emitter.
func (o *originTracker) deliversFromEmit(feed uint64, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.checked.has(checkedID{feed, id})
}

// A recentSet contains at least the last recentSize values that were added.
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
