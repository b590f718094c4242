package shard

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A server is a replica without faults, whose types change and whose work can be slow.
type server struct {
	*Owner
	mu    sync.Mutex
	types map[string]string
	slow  func(engine.Shard) time.Duration // to finish the work in progress
}

func serve(t *testing.T, c *cells, name string, orphans time.Duration, types ...string) *server {
	s := &server{types: map[string]string{}}
	s.set(types...)
	s.Owner = New(Options{Leases: port{c, &faults{}}, Name: name, Duties: []string{engine.OutboxTopic}, Shards: 4,
		Orphans: orphans, Logger: slog.New(slog.DiscardHandler),
		Types: func() map[string]string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return maps.Clone(s.types)
		},
		Run: func(t *Ownership) {
			select {
			case <-t.Draining():
			case <-t.Context().Done():
				return
			}
			s.mu.Lock()
			slow := s.slow
			s.mu.Unlock()
			if slow != nil {
				_ = sleep(t.Context(), slow(t.ShardFence().Shard))
			}
		}})
	ctx, cancel := context.WithCancel(context.Background())
	s.Start(ctx)
	t.Cleanup(func() {
		cancel()
		<-s.ended
	})
	return s
}

func (s *server) set(types ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types = map[string]string{}
	for _, t := range types {
		s.types[t] = "f"
	}
}

// owns returns the number of the topic's shards that it owns.
func (s *server) owns(topic string) (n int) {
	for i := range 4 {
		if s.Owns(engine.Shard{Topic: topic, Number: i}) {
			n++
		}
	}
	return n
}

// REP-6, REP-16: a registered or removed type counts immediately, not with the next renewal.
func TestREP6TypesCountAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCells()
		a, b := serve(t, c, "a", 0, "x"), serve(t, c, "b", 0)
		time.Sleep(5 * time.Second)
		if a.owns("x") != 4 || b.owns("x") != 0 {
			t.Fatalf("%d and %d", a.owns("x"), b.owns("x"))
		}
		b.set("x", "y")
		b.Hurry()
		time.Sleep(2100 * time.Millisecond)
		if a.owns("x") != 4 || b.owns("y") != 4 {
			t.Errorf("after registering a has %d of x, b %d of y", a.owns("x"), b.owns("y"))
		}
		a.set()
		a.Hurry()
		time.Sleep(2100 * time.Millisecond)
		if a.owns("x") != 0 || b.owns("x") != 4 {
			t.Errorf("after removing a has %d, b %d", a.owns("x"), b.owns("x"))
		}
	})
}

// REP-9: shards released by a replica that is shutting down are claimed immediately, whatever else it finishes.
func TestREP9ShutdownHoldsUpNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCells()
		a, b := serve(t, c, "a", 0, "x"), serve(t, c, "b", 0, "x")
		time.Sleep(5 * time.Second)
		has := a.owns("x")
		if has == 0 {
			t.Fatal("it owns nothing")
		}
		first := true
		a.mu.Lock()
		a.slow = func(s engine.Shard) time.Duration {
			a.mu.Lock()
			defer a.mu.Unlock()
			if first && s.Topic == "x" {
				first = false
				return 30 * time.Second
			}
			return 0
		}
		a.mu.Unlock()
		ended := make(chan error)
		go func() { ended <- a.Shutdown(context.Background()) }()
		time.Sleep(2 * time.Second)
		if n := b.owns("x"); n != 3 || !b.Owns(engine.Shard{Topic: engine.OutboxTopic}) {
			t.Errorf("after 2 s the other one owns %d of 4 and the outbox: %v", n, b.Owns(engine.Shard{Topic: engine.OutboxTopic}))
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if n := b.owns("x"); n != 4 {
			t.Errorf("in the end it owns %d", n)
		}
	})
}

// REP-16: shards of a type that no replica has registered for a time belong to any replica with other types, and
// return as soon as a replica registers it; shards of a registered type belong to no other replica.
func TestREP16Orphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const after = time.Minute
		c := newCells()
		a, b, idle := serve(t, c, "a", after, "x", "y"), serve(t, c, "b", after, "y"), serve(t, c, "idle", after)
		time.Sleep(10 * time.Second)
		a.set("y")
		a.Hurry()
		time.Sleep(after - 5*time.Second)
		if n := a.owns("x") + b.owns("x"); n != 0 {
			t.Fatalf("%d are owned too early", n)
		}
		time.Sleep(10 * time.Second)
		if n := a.owns("x") + b.owns("x"); n != 4 || idle.owns("x") != 0 {
			t.Fatalf("%d are owned, %d by who serves nothing", n, idle.owns("x"))
		}
		b.set("x", "y")
		b.Hurry()
		time.Sleep(5 * time.Second)
		if b.owns("x") != 4 {
			t.Errorf("who has registered it owns %d", b.owns("x"))
		}
		time.Sleep(2 * after)
		if a.owns("x") != 0 {
			t.Errorf("who has not owns %d", a.owns("x"))
		}
	})
}
