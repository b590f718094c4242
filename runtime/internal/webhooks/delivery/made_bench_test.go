package delivery

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// BenchmarkAttempts delivers to 64 subscriptions at one receiver on loopback, with progress in a
// durable store, with and without what came of each attempt: the difference is what that costs.
func BenchmarkAttempts(b *testing.B) {
	type durable interface {
		store.SubscriptionStore
		engine.Attempts
		Close() error
	}
	for _, s := range []struct {
		name string
		open func(b *testing.B) (durable, error)
	}{
		{"sqlite", func(b *testing.B) (durable, error) {
			return sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "events.db"), sqlite.Options{Logger: quietLog})
		}},
		{"postgres", func(b *testing.B) (durable, error) {
			return postgres.Open(b.Context(), pgtest.URL(b), postgres.Options{Schema: pgtest.Schema(b), Logger: quietLog})
		}},
	} {
		for _, keep := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/kept=%v", s.name, keep), func(b *testing.B) {
				receiver, requests, _ := receiver(b)
				g, err := netguard.New(netguard.Options{AllowOrigins: []string{receiver.URL}, HostConnections: 16})
				if err != nil {
					b.Fatal(err)
				}
				defer g.Close()
				db, err := s.open(b)
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				o := Options{Sender: g}
				if keep {
					o.Attempts = db
				}
				e := newEngine(b, o, db)
				defer shutdown(b, e)
				top := newTopic(store.LogOptions{})
				for i := range benchSubscriptions {
					r := record(fmt.Sprint("sub_", i))
					r.URL, r.Arguments = receiver.URL+"/hooks/"+strconv.Itoa(i), []byte("{}")
					if _, err := db.PutSubscription(context.Background(), r); err != nil {
						b.Fatal(err)
					}
					top.join(b, e, r, false)
				}
				b.ResetTimer()
				start := time.Now()
				for i := range (b.N + benchSubscriptions - 1) / benchSubscriptions {
					top.emit(b, "evt_"+strconv.Itoa(i))
				}
				want := int64((b.N + benchSubscriptions - 1) / benchSubscriptions * benchSubscriptions)
				for requests.Load() < want {
					time.Sleep(100 * time.Microsecond)
				}
				b.ReportMetric(float64(want)/time.Since(start).Seconds(), "deliveries/s")
			})
		}
	}
}
