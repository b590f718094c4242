package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// writers is the number of goroutines that append concurrently.
const writers = 64

var payload = json.RawMessage(`{"text":"` + strings.Repeat("x", 200) + `"}`)

// durable starts a cluster whose commits wait for the disk.
func durable(b *testing.B) string {
	b.Helper()
	pgtest.URL(b)
	c, err := pgtest.Start(pgtest.Durable)
	if err != nil {
		b.Skip("only a remote PostgreSQL:", err)
	}
	b.Cleanup(func() { c.Stop() })
	return c.URL()
}

// BenchmarkAppend measures appends to one log by several replicas, 64 writers in all.
func BenchmarkAppend(b *testing.B) {
	for _, replicas := range []int{1, 3} {
		b.Run(fmt.Sprint("replicas=", replicas), func(b *testing.B) {
			dsn := durable(b)
			var logs []store.EventLog
			for range replicas {
				s, err := postgres.Open(context.Background(), dsn, quiet(postgres.Options{}))
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { s.Close() })
				l, err := s.OpenLog(context.Background(), "log", store.LogOptions{})
				if err != nil {
					b.Fatal(err)
				}
				logs = append(logs, l)
			}
			var n atomic.Int64
			each(b, func(w int) error {
				e := entry(fmt.Sprint("evt_", n.Add(1)))
				e.Data = payload
				_, _, err := logs[w%replicas].AppendOnce(context.Background(), e, 0)
				return err
			})
		})
	}
}

// each runs f b.N times in the writers and reports the rate.
func each(b *testing.B, f func(w int) error) {
	b.SetParallelism(writers / 2) // on two processors
	var worker atomic.Int64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		w := int(worker.Add(1))
		for pb.Next() {
			if err := f(w); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "emits/s")
}

// BenchmarkRawInsert measures the limit: the same rows by the same writers, with waiting ones in one INSERT.
func BenchmarkRawInsert(b *testing.B) {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(durable(b))
	if err != nil {
		b.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, `CREATE TABLE raw (position bigserial PRIMARY KEY, appended timestamptz NOT NULL DEFAULT clock_timestamp(),
		event_id bytea NOT NULL, timestamp text NOT NULL, data bytea NOT NULL)`); err != nil {
		b.Fatal(err)
	}
	type row struct {
		e    store.Entry
		done chan error
	}
	rows := make(chan row, writers)
	go func() {
		for first := range rows {
			group := []row{first}
			for more := true; more && len(group) < 512; {
				select {
				case r, ok := <-rows:
					if more = ok; ok {
						group = append(group, r)
					}
				default:
					more = false
				}
			}
			var ids, data [][]byte
			var timestamps []string
			for _, r := range group {
				ids, data, timestamps = append(ids, []byte(r.e.EventID)), append(data, r.e.Data), append(timestamps, r.e.Timestamp.String())
			}
			_, err := pool.Exec(ctx, `INSERT INTO raw (event_id, timestamp, data) SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[])`, ids, timestamps, data)
			for _, r := range group {
				r.done <- err
			}
		}
	}()
	var n atomic.Int64
	each(b, func(int) error {
		e := entry(fmt.Sprint("evt_", n.Add(1)))
		e.Data = payload
		r := row{e, make(chan error, 1)}
		rows <- r
		return <-r.done
	})
	close(rows)
}
