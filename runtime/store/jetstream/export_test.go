package jetstream

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Age makes everything in the store older: what was stamped until now, and what the open logs know of it.
func (s *Store) Age(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		l.mu.Lock()
		l.stamp, l.until = l.stamp.Add(-by), time.Time{}
		l.mu.Unlock()
	}
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	until, before := time.Now(), s.clock.older // the servers are in this process
	s.clock.older = func(at time.Time) (sum time.Duration) {
		if before != nil {
			sum = before(at)
		}
		if at.After(until) {
			return sum
		}
		return sum + by
	}
}

// Slow has every change wait between what it has read and its writes.
func (s *Store) Slow(d time.Duration) { s.slow = func() { time.Sleep(d) } }

// Lose loses the first answer to each write: of logs, of records, and of every batch.
func (s *Store) Lose() {
	var mu sync.Mutex
	seen := map[string]bool{}
	s.lose = func(m *nats.Msg) bool {
		if strings.HasPrefix(m.Subject, "$JS.API.") || len(m.Data) < 18 {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		what := m.Subject + string(m.Data[1:10]) // the call
		first := !seen[what]
		seen[what] = true
		return first
	}
}

// Behind has every second direct read answered by a server that has nothing yet.
func (s *Store) Behind() {
	var n atomic.Int64
	s.behind = func() bool { return n.Add(1)%2 == 0 }
}

// WatchLife looks at the state at once.
func (s *Store) WatchLife() { s.watchLife() }

// Hear takes what a leader says is the time, and returns by how much it is ahead.
func (s *Store) Hear(t time.Time) time.Duration { return s.clock.hear(t) }

// Namespace is the store's.
func (s *Store) Namespace() string { return s.o.Namespace }

// Deafen closes what republished entries come by.
func (s *Store) Deafen() { s.tail.Close() }

// Decodes reads a message.
func Decodes(b []byte) error {
	_, err := decode(b)
	return err
}

// StateStream is the stream of a namespace's state, and Marks the subjects of how far a log was offered to shards.
func StateStream(namespace string) string { return strings.ToUpper(namespace) + "_S" }

func Marks(namespace, log string) string { return namespace + ".s." + markAt(anyShard, log) }

// LifeSubject is where the life of a namespace's state lies.
func LifeSubject(namespace string) string { return namespace + ".s." + lifeSubject }

// ProofSubject is where a process that is not there would prove.
func ProofSubject(namespace string) string { return namespace + ".s." + proofs + "none" }

// Testify has every open log looked at, and what was seen written down.
func (s *Store) Testify(ctx context.Context) error {
	s.mu.Lock()
	logs := slices.Collect(maps.Values(s.logs))
	s.mu.Unlock()
	for _, l := range logs {
		if err := l.look(ctx); err != nil {
			return err
		}
		if err := l.testify(ctx, time.Now().Add(testifies)); err != nil {
			return err
		}
	}
	return nil
}

// Between has every change call f between what it has read and its writes.
func (s *Store) Between(f func()) { s.slow = f }

// Connected tells whether what is written has a connection.
func (s *Store) Connected() bool { return s.write.IsConnected() }

// Leads and Ruled judge who has answered the question for a stream.
var Leads, Ruled = leads, ruled

// Absent has the next question for each stream answered by a server that says that it has none of that name.
func (s *Store) Absent() {
	said := map[string]bool{}
	var mu sync.Mutex
	s.absent = func(stream string) bool {
		mu.Lock()
		defer mu.Unlock()
		first := !said[stream]
		said[stream] = true
		return first
	}
}
