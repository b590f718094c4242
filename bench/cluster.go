package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/throwaway"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// clusterReplicas is the number of replicas.
	clusterReplicas = 3
	// outboxRest is longer than the idle time after which an outbox is polled less often.
	outboxRest = 11 * time.Second
	// countTime is the duration for counting transactions. PostgreSQL's counters can lag by a second.
	countTime = 15 * time.Second
)

// database starts a PostgreSQL server that syncs commits to disk.
func database() (address string, stop func() error, err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	return throwaway.Start(filepath.Join(filepath.Dir(exe), "throwaway"), "-durable")
}

// benchCluster measures replicas on one PostgreSQL server.
func benchCluster(ctx context.Context, s settings) ([]row, error) {
	address, stop, err := database()
	if errors.Is(err, throwaway.ErrMissing) {
		fmt.Fprintln(os.Stderr, "bench: NOT MEASURED: replicas, since PostgreSQL is not installed")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer stop()
	receiver, err := start(ctx, "clock")
	if err != nil {
		return nil, err
	}
	defer receiver.stop()
	var all []*process
	place := address + " " + receiver.base
	for range clusterReplicas {
		p, err := startIn(ctx, "replica", place)
		if err != nil {
			return nil, err
		}
		defer p.stop()
		all = append(all, p)
	}
	rest, err := benchRest(ctx, address, len(all))
	if err != nil {
		return nil, err
	}
	rows, err := benchOutbox(ctx, all)
	if err != nil {
		return nil, err
	}
	failover, err := benchFailover(ctx, s, all, place)
	if err != nil {
		return nil, err
	}
	fan, err := benchFan(ctx, all, receiver, address)
	return append(rows, rest, failover, fan), err
}

// arrivals records when each payload arrived on a stream, by the payload's time.
type arrivals struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	at   map[int64]int64
	more chan struct{} // closed and replaced on every arrival
}

// follow opens a stream and returns when it is active.
func follow(ctx context.Context, p *process) (*arrivals, error) {
	ctx, cancel := context.WithCancel(ctx)
	req := request(ctx, p.base+"/mcp", "events/stream", `"name":"bench.sample","cursor":null,`)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	a := &arrivals{cancel: cancel, done: make(chan struct{}), at: map[int64]int64{}, more: make(chan struct{})}
	active := make(chan struct{})
	go func() {
		active := active
		defer close(a.done)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			now := time.Now().UnixNano()
			if active != nil && bytes.Contains(lines.Bytes(), activeKey) {
				close(active)
				active = nil
			}
			_, text, ok := bytes.Cut(lines.Bytes(), []byte("data: "))
			var f struct {
				Params struct {
					Data struct{ T int64 }
				}
			}
			if !ok || json.Unmarshal(text, &f) != nil || f.Params.Data.T == 0 {
				continue
			}
			a.mu.Lock()
			a.at[f.Params.Data.T] = now
			close(a.more)
			a.more = make(chan struct{})
			a.mu.Unlock()
		}
	}()
	select {
	case <-active:
		return a, nil
	case <-a.done:
		return nil, fmt.Errorf("the stream ended: %s", resp.Status)
	}
}

func (a *arrivals) close() {
	a.cancel()
	<-a.done
}

// arrivalOf waits for the payload with the given time and returns its arrival time.
func (a *arrivals) arrivalOf(t int64) (int64, error) {
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	for {
		a.mu.Lock()
		at, ok := a.at[t]
		more := a.more
		a.mu.Unlock()
		if ok {
			return at, nil
		}
		select {
		case <-more:
		case <-a.done:
			return 0, errors.New("the stream ended")
		case <-timer.C:
			return 0, errors.New("an occurrence did not come within 30 s")
		}
	}
}

// commitTransactions makes p commit n transactions with one occurrence each. It returns the commit times by the
// payload's time.
func (p *process) commitTransactions(n int, every time.Duration) (commits map[int64]int64, err error) {
	text, err := p.get(fmt.Sprintf("/admin/transactions?n=%d&every=%s", n, every))
	if err != nil {
		return nil, err
	}
	return commits, json.Unmarshal([]byte(text), &commits)
}

// ageRow returns a row with the age of events at delivery and the limit for its p99.
func ageRow(what string, took []time.Duration, target time.Duration) row {
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	ours := fmt.Sprintf("%v, %v", p50.Round(100*time.Microsecond), p99.Round(100*time.Microsecond))
	return row{what, target.String(), ours, float64(p99) / float64(target), "≤ 1.00"}
}

// benchRest counts the transactions of idle replicas. Most are one statement.
func benchRest(ctx context.Context, database string, replicas int) (row, error) {
	count := func() (n int64, err error) {
		conn, err := pgx.Connect(ctx, database)
		if err != nil {
			return 0, err
		}
		defer conn.Close(ctx)
		return n, conn.QueryRow(ctx, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&n)
	}
	time.Sleep(2 * outboxRest) // until shards have been divided
	from, err := count()
	if err != nil {
		return row{}, err
	}
	time.Sleep(countTime)
	to, err := count()
	if err != nil {
		return row{}, err
	}
	const most = 8.0
	each := float64(to-from) / countTime.Seconds() / float64(replicas)
	what := fmt.Sprintf("transactions of a replica at rest, replicas: %d", replicas)
	return row{what, fmt.Sprintf("%.1f/s", most), fmt.Sprintf("%.1f/s", each), each / most, "≤ 1.00"}, nil
}

// benchOutbox measures the time from the commit of an author's transaction to the arrival of its occurrence on a stream
// at another replica. It measures the first occurrence after an idle period and the following ones.
func benchOutbox(ctx context.Context, all []*process) ([]row, error) {
	a, err := follow(ctx, all[1])
	if err != nil {
		return nil, err
	}
	defer a.close()
	measure := func(n int) (took []time.Duration, err error) {
		commits, err := all[0].commitTransactions(n, 17*time.Millisecond)
		if err != nil {
			return nil, err
		}
		for t, committed := range commits {
			at, err := a.arrivalOf(t)
			if err != nil {
				return nil, err
			}
			took = append(took, time.Duration(at-committed))
		}
		return took, nil
	}
	time.Sleep(outboxRest)
	first, err := measure(1)
	if err != nil {
		return nil, err
	}
	took, err := measure(300)
	if err != nil {
		return nil, err
	}
	const what = "from a transaction's commit to a stream at another replica, p50 and p99"
	return []row{ageRow(what, took, 60*time.Millisecond), ageRow(what+", after a rest", first, 300*time.Millisecond)}, nil
}

// benchFailover measures the time from killing the outbox's owner to the arrival of a later occurrence on a stream at
// another replica.
func benchFailover(ctx context.Context, s settings, all []*process, place string) (row, error) {
	var took []float64
	for range s.rounds {
		owner, err := ownerOf(all, engine.OutboxTopic)
		if err != nil {
			return row{}, err
		}
		other := (owner + 1) % len(all)
		a, err := follow(ctx, all[other])
		if err != nil {
			return row{}, err
		}
		killed := time.Now()
		all[owner].stop()
		commits, err := all[other].commitTransactions(1, 0)
		if err != nil {
			return row{}, err
		}
		for t := range commits {
			at, err := a.arrivalOf(t)
			if err != nil {
				return row{}, err
			}
			took = append(took, time.Unix(0, at).Sub(killed).Seconds())
		}
		a.close()
		again, err := startIn(ctx, "replica", place)
		if err != nil {
			return row{}, err
		}
		*all[owner] = *again
	}
	const target = 12.0 // the lease and 2 s
	m := median(took)
	const what = "from the kill of the outbox's owner to the next delivery (lease 10 s)"
	return row{what, "12 s", fmt.Sprintf("%.1f s", m), m / target, "≤ 1.00"}, nil
}

// ownerOf returns the index of the process that owns the topic's only shard.
func ownerOf(all []*process, topic string) (int, error) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		text, err := all[0].get("/admin/cluster")
		if err != nil {
			return 0, err
		}
		var c engine.Cluster
		if err := json.Unmarshal([]byte(text), &c); err != nil {
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

// fanSubscriptions is the number of webhook subscriptions in benchFan. fanEmits is the number of events.
const (
	fanSubscriptions = 30
	fanEmits         = 100
)

// ages waits for n deliveries at a receiver and returns the ages of their events.
func ages(receiver *process, n int) (took []time.Duration, err error) {
	for end := time.Now().Add(30 * time.Second); len(took) < n; time.Sleep(10 * time.Millisecond) {
		text, err := receiver.get("/admin/ages")
		var some []time.Duration
		if err == nil {
			err = json.Unmarshal([]byte(text), &some)
		}
		if took = append(took, some...); err != nil || time.Now().After(end) {
			return took, errors.Join(err, fmt.Errorf("%d of %d deliveries within 30 s", len(took), n))
		}
	}
	return took, nil
}

// benchFan measures the age of occurrences on arrival at webhooks. One process only emits, and other processes own the
// webhook subscriptions.
func benchFan(ctx context.Context, all []*process, receiver *process, database string) (row, error) {
	worker, err := startIn(ctx, "worker", database)
	if err != nil {
		return row{}, err
	}
	defer worker.stop()
	if _, err := all[0].get(fmt.Sprint("/admin/subscribe?n=", fanSubscriptions)); err != nil {
		return row{}, err
	}
	if err := worker.emit(1); err != nil { // until then owners take new subscriptions up
		return row{}, err
	}
	if _, err := ages(receiver, fanSubscriptions); err != nil {
		return row{}, err
	}
	for range fanEmits {
		time.Sleep(50 * time.Millisecond)
		if err := worker.emit(1); err != nil {
			return row{}, err
		}
	}
	took, err := ages(receiver, fanEmits*fanSubscriptions)
	if err != nil {
		return row{}, err
	}
	what := fmt.Sprintf("from an emit to %d webhooks at other replicas, p50 and p99", fanSubscriptions)
	return ageRow(what, took, 150*time.Millisecond), nil
}
