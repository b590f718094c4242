package jetstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	mcpe "github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

const (
	benchWriters = 48 // in all, divided among the replicas
	benchBytes   = 512
	benchRound   = 2 * time.Second // how long one side is measured before the other
)

// durable starts three servers that sync to disk before they acknowledge.
func durable(b *testing.B) []*server.Server {
	b.Helper()
	all := threeOf(b.TempDir(), func(o *server.Options) { o.SyncAlways = true })
	b.Cleanup(func() { stop(all...) })
	return all
}

// An occurrence is the payload that the benchmarks emit.
type occurrence struct {
	Text string `json:"text"`
}

func occurrences(name string) events.Type[struct{}, occurrence] {
	return events.Type[struct{}, occurrence]{Info: events.Info{Name: name, Description: "Something happened.",
		InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)}}
}

// rate returns how often per second all writers together complete f.
func rate(b *testing.B, f func(ctx context.Context, writer int) error) float64 {
	b.Helper()
	var done atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for w := range benchWriters {
		wg.Go(func() {
			for time.Since(began) < benchRound {
				if err := f(b.Context(), w); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

func middle(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}

// BenchmarkEmits measures emits of 1, 4 and 16 event types at 1, 3 and 6 replicas, alternating with the limit: the
// same number of writers and connections publishes the same number of bytes to the same number of streams, without
// expected sequences and notifications. Three servers run in this process with sync_interval: always. Each round
// measures both; the output shows the medians.
func BenchmarkEmits(b *testing.B) {
	servers := durable(b)
	text := strings.Repeat("x", benchBytes)
	for _, types := range []int{1, 4, 16} {
		for _, replicas := range []int{1, 3, 6} {
			b.Run(fmt.Sprintf("types=%d/replicas=%d", types, replicas), func(b *testing.B) {
				o := quiet(jetstream.Options{Namespace: space()})
				var emitters [][]*mcpe.Emitter[occurrence]
				var plain []natsjs.JetStream
				for r := range replicas {
					url := servers[r%len(servers)].ClientURL()
					s, err := jetstream.Open(b.Context(), url, o)
					if err != nil {
						b.Fatal(err)
					}
					defer s.Close()
					worker, err := mcpe.NewEmitOnly(mcpe.Options{Store: s, Logger: o.Logger})
					if err != nil {
						b.Fatal(err)
					}
					defer worker.Shutdown(context.Background())
					var own []*mcpe.Emitter[occurrence]
					for n := range types {
						e, err := mcpe.Register(worker, occurrences(fmt.Sprint("type", n)), mcpe.Hooks[struct{}, occurrence]{})
						if err != nil {
							b.Fatal(err)
						}
						own = append(own, e)
					}
					emitters = append(emitters, own)
					c, err := nats.Connect(url)
					if err != nil {
						b.Fatal(err)
					}
					defer c.Close()
					js, err := natsjs.New(c)
					if err != nil {
						b.Fatal(err)
					}
					plain = append(plain, js)
				}
				subject := func(n int) string { return fmt.Sprint(o.Namespace, ".plain.", n) }
				for n := range types {
					config := natsjs.StreamConfig{Name: fmt.Sprint(strings.ToUpper(o.Namespace), "_P_", n), Subjects: []string{subject(n)}, Replicas: 3}
					if _, err := plain[0].CreateStream(b.Context(), config); err != nil {
						b.Fatal(err)
					}
				}
				var limits, ours []float64
				for b.Loop() {
					limits = append(limits, rate(b, func(ctx context.Context, w int) error {
						_, err := plain[w%replicas].Publish(ctx, subject(w/replicas%types), []byte(text))
						return err
					}))
					ours = append(ours, rate(b, func(ctx context.Context, w int) error {
						return emitters[w%replicas][w/replicas%types].Emit(ctx, occurrence{text})
					}))
				}
				limit, own := middle(limits), middle(ours)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(limit, "plain/s")
				b.ReportMetric(own, "emits/s")
				b.ReportMetric(own/limit, "ratio")
			})
		}
	}
}

// BenchmarkTold measures an append, a plain publish, and the time until another process sees the append.
func BenchmarkTold(b *testing.B) {
	servers := durable(b)
	o := quiet(jetstream.Options{Namespace: space()})
	told := make(chan time.Time, 1)
	logs := make([]store.EventLog, 2)
	for i := range logs {
		s, err := jetstream.Open(b.Context(), servers[i].ClientURL(), o)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		limits := bounded
		if i == 1 {
			limits.Appended = func([]store.Entry) { told <- time.Now() }
		}
		if logs[i], err = s.OpenLog(b.Context(), "log", limits); err != nil {
			b.Fatal(err)
		}
	}
	c, err := nats.Connect(servers[0].ClientURL())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	js, err := natsjs.New(c)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := js.CreateStream(b.Context(), natsjs.StreamConfig{Name: "PLAIN", Subjects: []string{"plain"}, Replicas: 3}); err != nil {
		b.Fatal(err)
	}
	var plain, appends, after []time.Duration
	for n := 0; b.Loop(); n++ {
		began := time.Now()
		if _, err := js.Publish(b.Context(), "plain", make([]byte, benchBytes)); err != nil {
			b.Fatal(err)
		}
		plain = append(plain, time.Since(began))
		began = time.Now()
		if _, err := logs[0].Append(b.Context(), check.Entry(fmt.Sprint(n))); err != nil {
			b.Fatal(err)
		}
		done := time.Now()
		appends = append(appends, done.Sub(began))
		after = append(after, max(0, (<-told).Sub(done)))
	}
	b.ReportMetric(0, "ns/op")
	for name, times := range map[string][]time.Duration{"plain": plain, "append": appends, "told": after} {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, name+"-p99-ms")
	}
}

// BenchmarkTakeover measures the work of a takeover after the old lease has ended: it claims the 16 shards of a topic
// and reads their 1,000 subscriptions.
func BenchmarkTakeover(b *testing.B) {
	servers := durable(b)
	s, err := jetstream.Open(b.Context(), servers[0].ClientURL(), quiet(jetstream.Options{Namespace: space()}))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const shards, subs = 16, 1000
	topic := inShard("", 0).Event
	if _, err := s.Establish(b.Context(), topic, shards); err != nil {
		b.Fatal(err)
	}
	for n := range subs {
		if _, err := s.PutSubscription(b.Context(), inShard(fmt.Sprintf("sub_%04d", n), n%shards)); err != nil {
			b.Fatal(err)
		}
	}
	var claims, reads []float64
	for b.Loop() {
		lease, err := s.Join(b.Context(), "heir", time.Hour, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		c, err := s.Cluster(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		won, err := s.Claim(b.Context(), lease.Fence, c.Shards)
		if err != nil || len(won) != shards {
			b.Fatalf("%d shards, %v", len(won), err)
		}
		claims = append(claims, time.Since(began).Seconds()*1000)
		began = time.Now()
		found := 0
		for _, shard := range won {
			page, err := s.Owned(engine.ShardFence{Shard: shard, Fence: lease.Fence}).Subscriptions(b.Context(), "", subs)
			if err != nil {
				b.Fatal(err)
			}
			found += len(page)
		}
		if found != subs {
			b.Fatalf("%d subscriptions", found)
		}
		reads = append(reads, time.Since(began).Seconds()*1000)
		if err := s.Leave(b.Context(), lease.Fence); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(middle(claims), "claim-ms")
	b.ReportMetric(middle(reads), "read-ms")
}
