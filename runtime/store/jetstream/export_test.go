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

// Age makes everything in the store older: past stamps, and the state of the open logs.
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

// Slow makes every change wait between its reads and its writes.
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

// Behind makes every second direct read return nothing, as from a server that lags.
func (s *Store) Behind() {
	var n atomic.Int64
	s.behind = func() bool { return n.Add(1)%2 == 0 }
}

// WatchLife looks at the state now.
func (s *Store) WatchLife() { s.watchGeneration() }

// Hear passes a leader's time to the clock, and returns how far it is ahead.
func (s *Store) Hear(t time.Time) time.Duration { return s.clock.observe(t) }

// Namespace returns the store's namespace.
func (s *Store) Namespace() string { return s.o.Namespace }

// Deafen closes the connection for republished entries.
func (s *Store) Deafen() { s.tail.Close() }

// Decodes decodes a message.
func Decodes(b []byte) error {
	_, err := decode(b)
	return err
}

// StateStream returns the stream of a namespace's state, and Marks the subjects of a log's marks in all shards.
func StateStream(namespace string) string { return strings.ToUpper(namespace) + "_S" }

func Marks(namespace, log string) string { return namespace + ".s." + markSubject(shardPattern, log) }

// LifeSubject returns the subject of the life of a namespace's state.
func LifeSubject(namespace string) string { return namespace + ".s." + generationSubject }

// ProofSubject returns the subject for proofs of an imaginary process.
func ProofSubject(namespace string) string { return namespace + ".s." + proofs + "none" }

// Testify makes every open log look, and stores the witnesses.
func (s *Store) Testify(ctx context.Context) error {
	s.mu.Lock()
	logs := slices.Collect(maps.Values(s.logs))
	s.mu.Unlock()
	for _, l := range logs {
		if err := l.pollOnce(ctx); err != nil {
			return err
		}
		if err := l.recordWitness(ctx, time.Now().Add(witnessInterval)); err != nil {
			return err
		}
	}
	return nil
}

// Between makes every change call f between its reads and its writes.
func (s *Store) Between(f func()) { s.slow = f }

// Connected reports whether the connection for writes is connected.
func (s *Store) Connected() bool { return s.write.IsConnected() }

// Leads and Ruled judge which server has answered a request for a stream's information.
var Leads, Ruled = isLeader, ledThroughout

// Absent makes a server deny, once per stream, that it has the stream.
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
