package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// eachShard is a principal of bench.subscribe that puts the subscriptions into different shards.
	eachShard = "bench$i"
	// clusterReplicas is the number of replicas.
	clusterReplicas = 3
	// outboxRest is longer than the idle time after which an outbox is polled less often.
	outboxRest = 11 * time.Second
	// countTime is the duration for counting transactions. PostgreSQL's counters can lag by a second.
	countTime = 15 * time.Second
)

// benchCluster measures replicas on one PostgreSQL server.
func benchCluster(b *bench) {
	address, ok := b.database("replicas")
	if !ok {
		return
	}
	receiver := b.start("clock")
	var all []*process
	for range clusterReplicas {
		all = append(all, b.start("replica", address, receiver.base))
	}
	benchRest(b, address, len(all))
	benchOutbox(b, all)
	benchFailover(b, all, address, receiver)
	benchFan(b, all, receiver, address)
}

// arrivals is a stream that records when each payload arrived, by the payload's time.
type arrivals struct {
	*streams

	mu sync.Mutex
	at map[int64]int64
}

// follow opens a stream and returns when it is active.
func follow(ctx context.Context, p *process) (a *arrivals, err error) {
	a = &arrivals{at: map[int64]int64{}}
	a.streams, err = openStreams(ctx, p.base+"/mcp", 1, a.record)
	return a, err
}

func (a *arrivals) record(t, now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[t] = now
}

// arrivalOf waits for the payload with the given time and returns its arrival time.
func (a *arrivals) arrivalOf(t int64) (int64, error) {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		a.mu.Lock()
		at, ok := a.at[t]
		a.mu.Unlock()
		if ok {
			return at, nil
		}
	}
	return 0, errors.New("an occurrence did not come within 30 s")
}

// transactions makes p commit n transactions with one event each. It returns the times from each commit to the event's
// arrival in seconds.
func (b *bench) transactions(p *process, a *arrivals, n int, every time.Duration) (took []float64) {
	var commits map[int64]int64 // by the payload's time
	b.check(p.ask(fmt.Sprintf("/admin/transactions?n=%d&every=%s", n, every), &commits))
	for t, committed := range commits {
		at, err := a.arrivalOf(t)
		b.check(err)
		took = append(took, time.Duration(at-committed).Seconds())
	}
	return took
}

// benchRest counts the transactions of idle replicas. Most are one statement.
func benchRest(b *bench, database string, replicas int) {
	transactions := func() (n float64) {
		conn, err := pgx.Connect(b, database)
		b.check(err)
		defer conn.Close(b)
		b.check(conn.QueryRow(b, "SELECT (xact_commit + xact_rollback)::float8 FROM pg_stat_database WHERE datname = current_database()").Scan(&n))
		return n
	}
	time.Sleep(2 * outboxRest) // until shards have been divided
	m := b.inTurns(func() float64 {
		from := transactions()
		time.Sleep(countTime)
		return (transactions() - from) / countTime.Seconds() / float64(replicas)
	})
	b.within(fmt.Sprintf("transactions of a replica at rest, replicas: %d", replicas), m[0], 8, rate)
}

// benchOutbox measures the time from the commit of an author's transaction to the arrival of its event on a stream at
// another replica. It measures the first event after an idle period and the following ones.
func benchOutbox(b *bench, all []*process) {
	a, err := follow(b, all[1])
	b.check(err)
	defer a.close()
	var first, following latencies
	for range b.rounds {
		time.Sleep(outboxRest)
		first.add(b.transactions(all[0], a, 1, 0))
		following.add(b.transactions(all[0], a, 100, 17*time.Millisecond))
	}
	const what = "from a transaction's commit to a stream at another replica"
	b.ageWithin(what, following, 60*time.Millisecond)
	b.within(what+", after a rest", first.p50, 0.3, duration)
}

// benchFailover measures the time from killing the outbox's owner to the arrival of a later event on a stream at another
// replica.
func benchFailover(b *bench, all []*process, address string, receiver *process) {
	m := b.inTurns(func() float64 {
		owner, err := ownerOf(all, engine.OutboxTopic)
		b.check(err)
		other := all[(owner+1)%len(all)]
		a, err := follow(b, other)
		b.check(err)
		defer a.close()
		killed := time.Now()
		all[owner].stop()
		b.transactions(other, a, 1, 0)
		took := time.Since(killed).Seconds()
		all[owner] = b.start("replica", address, receiver.base)
		return took
	})
	b.within("from the kill of the outbox's owner to the next delivery (lease 10 s)", m[0], 12, duration) // the lease and 2 s
}

// ownerOf returns the index of the process that owns the topic's only shard.
func ownerOf(all []*process, topic string) (int, error) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var c engine.Cluster
		if err := all[0].ask("/admin/cluster", &c); err != nil {
			return 0, err
		}
		for _, h := range c.Shards {
			for _, r := range c.Replicas {
				if h.Shard.Topic != topic || r.Fence != h.Fence {
					continue
				}
				if i := slices.IndexFunc(all, func(p *process) bool {
					return strings.HasSuffix(r.Name, fmt.Sprint("/", p.cmd.Process.Pid))
				}); i >= 0 {
					return i, nil
				}
			}
		}
	}
	return 0, fmt.Errorf("nobody owns %s", topic)
}

// fanSubscriptions is the number of webhook subscriptions in benchFan. fanEmits is the number of events in a round.
const (
	fanSubscriptions = 30
	fanEmits         = 40
)

// ages waits for n deliveries at a receiver of kind clock and returns the ages of their events in seconds.
func (b *bench) ages(receiver *process, n int) (took []float64) {
	for end := time.Now().Add(30 * time.Second); len(took) < n; time.Sleep(10 * time.Millisecond) {
		var some []time.Duration
		b.check(receiver.ask("/admin/ages", &some))
		for _, age := range some {
			took = append(took, age.Seconds())
		}
		if time.Now().After(end) {
			b.check(fmt.Errorf("%d of %d deliveries within 30 s", len(took), n))
		}
	}
	return took
}

// benchFan measures the age of events on arrival at webhooks. One process only emits, and other processes own the
// webhook subscriptions.
func benchFan(b *bench, all []*process, receiver *process, database string) {
	worker := b.start("worker", database)
	b.subscribe(all[0], fanSubscriptions, eachShard, `{}`)
	b.emit(worker, 1) // until then owners take new subscriptions up
	b.ages(receiver, fanSubscriptions)
	var took latencies
	for range b.rounds {
		for range fanEmits {
			time.Sleep(50 * time.Millisecond)
			b.emit(worker, 1)
		}
		took.add(b.ages(receiver, fanEmits*fanSubscriptions))
	}
	b.ageWithin(fmt.Sprintf("from an emit to %d webhooks at other replicas", fanSubscriptions), took, 150*time.Millisecond)
}
