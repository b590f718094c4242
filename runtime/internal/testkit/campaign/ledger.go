package campaign

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// A ledger records the actions of the emitters.
type ledger struct {
	mu      sync.Mutex
	tickets map[string]*entry
	retries int
}

// An entry is an occurrence that an emitter tried to emit.
type entry struct {
	ticket
	outbox bool      // emitted in a transaction
	acked  time.Time // when the emit was acknowledged; zero if it was not, so the entry may or may not be in the log
}

func newLedger() *ledger { return &ledger{tickets: map[string]*entry{}} }

func (l *ledger) begin(t ticket, outbox bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tickets[t.ID] = &entry{ticket: t, outbox: outbox}
}

func (l *ledger) retried() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retries++
}

func (l *ledger) acknowledged(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tickets[id].acked = time.Now()
}

// forget marks all entries not contained in a restored backup as unacknowledged.
func (l *ledger) forget(stand map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, e := range l.tickets {
		if !stand[id] {
			e.acked = time.Time{}
		}
	}
}

func (l *ledger) get(id string) (entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.tickets[id]
	if !ok {
		return entry{}, false
	}
	return *e, true
}

// expected returns the acknowledged IDs that a consumer with the given filter must receive.
func (l *ledger) expected(severity string) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, e := range l.tickets {
		if !e.acked.IsZero() && (severity == "" || e.Severity == severity) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// A record contains the occurrences that one consumer has received.
type record struct {
	kind, severity string
	// exact reports whether the consumer inspects the messages on the wire. If so, it must receive each occurrence
	// once, in the order of the log. exact is not set for webhook receivers and for clients, which deduplicate.
	exact bool

	mu        sync.Mutex
	seen      map[string]int
	order     []string
	truncated int
	gapAt     int // length of order at the last gap
	troubles  int // failed requests, which are repeated
	latency   []time.Duration
	came      []time.Time // times of new occurrences
	fatal     error
	arrivals  func(id string, at time.Time)
	again     func(err error) // called if an occurrence is repeated although exact is set
}

func newRecord(kind, severity string, exact bool) *record {
	return &record{kind: kind, severity: severity, exact: exact, seen: map[string]int{}}
}

func (r *record) got(id string, l *ledger) {
	now := time.Now()
	e, known := l.get(id)
	r.mu.Lock()
	r.seen[id]++
	r.order = append(r.order, id)
	if known && r.seen[id] == 1 {
		r.latency = append(r.latency, now.Sub(e.Opened.Time))
		r.came = append(r.came, now)
	}
	arrivals, again := r.arrivals, r.again
	if !r.exact || r.seen[id] == 1 {
		again = nil
	}
	r.mu.Unlock()
	if again != nil {
		again(fmt.Errorf("%s of %q: %s was repeated", r.kind, r.severity, id))
	}
	if arrivals != nil {
		arrivals(id, now)
	}
}

// delaysAfter returns the delay from each of the times to the next new occurrence. It omits times after which nothing
// new arrived.
func (r *record) delaysAfter(times []time.Time) (waits []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range times {
		i, _ := slices.BinarySearchFunc(r.came, at, time.Time.Compare)
		if i < len(r.came) {
			waits = append(waits, r.came[i].Sub(at))
		}
	}
	return waits
}

func (r *record) gap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.truncated++
	r.gapAt = len(r.order)
}

func (r *record) trouble() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.troubles++
}

func (r *record) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal == nil {
		r.fatal = err
	}
}

// missing returns the IDs that have not arrived.
func (r *record) missing(ids []string) (none []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if r.seen[id] == 0 {
			none = append(none, id)
		}
	}
	return none
}
