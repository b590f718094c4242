package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/bench/sample"
	"github.com/mcpe-gen/mcpe-gen/bench/sample/sampleserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

const (
	// loadPath is the path of the request that makes a process write under load.
	loadPath = "/admin/load"
	// manyTypes is the number of event types that a replica can emit.
	manyTypes = 16
)

// writeBatch is the maximum number of rows in one INSERT of the limit, as in an append of the store.
const writeBatch = 512

// onLoad handles a GET that specifies a number of types, a number of writers and a duration. The writers call f
// concurrently for the duration, with each type in turn. The response is the number of calls per second.
func onLoad(mux *http.ServeMux, f func(ctx context.Context, of int) error) {
	onGet(mux, loadPath, func(r *http.Request) (any, error) {
		types, err := strconv.Atoi(r.FormValue("types"))
		writers, err2 := strconv.Atoi(r.FormValue("writers"))
		d, err3 := time.ParseDuration(r.FormValue("for"))
		if err := errors.Join(err, err2, err3); err != nil {
			return nil, err
		}
		var calls atomic.Int64
		perSecond, _, err := closedLoop(r.Context(), writers, d, func(ctx context.Context) error {
			return f(ctx, int(calls.Add(1))%types)
		})
		return perSecond, err
	})
}

// serveWorker serves a process that only emits.
func serveWorker(mux *http.ServeMux, database string) error {
	log := slog.New(slog.DiscardHandler)
	kept, err := postgres.Open(context.Background(), database, postgres.Options{Logger: log})
	if err != nil {
		return err
	}
	es, err := server.NewEmitOnly(server.Options{Store: kept, Replicas: replicas.New(replicas.Options{}), Logger: log})
	if err != nil {
		return err
	}
	emitter, err := sampleserver.RegisterBenchSample(es, sampleserver.BenchSampleHooks{})
	if err != nil {
		return err
	}
	onEmit(mux, func() error { return emitter.Emit(context.Background(), payload()) })
	return nil
}

// serveReplica serves a replica. place consists of the connection string, the optional URL of the webhooks and the
// optional lease, separated by spaces.
func serveReplica(mux *http.ServeMux, place string) error {
	database, receiver, _ := strings.Cut(place, " ")
	receiver, text, ok := strings.Cut(receiver, " ")
	var replica replicas.Options
	if ok {
		var err error
		if replica.Lease, err = time.ParseDuration(text); err != nil {
			return err
		}
	}
	ctx := context.Background()
	log := slog.New(slog.DiscardHandler)
	kept, err := postgres.Open(ctx, database, postgres.Options{Logger: log})
	if err != nil {
		return err
	}
	db, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	o := server.Options{Store: kept, Replicas: replicas.New(replica), Operators: operators.New(), Logger: log}
	if receiver != "" {
		o.Webhooks = webhooks.New(webhooks.Options{AllowReceivers: []string{receiver}, Callbacks: callbacks.Options{AllowOrigins: []string{receiver}}})
	}
	srv := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	es, err := server.New(srv, o)
	if err != nil {
		return err
	}
	emitter, err := sampleserver.RegisterBenchSample(es, sampleserver.BenchSampleHooks{})
	if err != nil {
		return err
	}
	onSubscribe(mux, es, sample.BenchSampleEventName, receiver)
	mux.Handle("/mcp", transport.NewHandler(es, transport.HandlerOptions{MaxOpen: -1, MaxSessions: -1}))
	var many []*server.Emitter[sample.BenchSamplePayload]
	for i := range manyTypes {
		t := events.Type[sample.BenchSampleArguments, sample.BenchSamplePayload]{Info: events.Info{Name: fmt.Sprint("bench.many", i), Description: "One of many.",
			InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object","required":["t"]}`)}}
		e, err := server.Register(es, t, server.Hooks[sample.BenchSampleArguments, sample.BenchSamplePayload]{})
		if err != nil {
			return err
		}
		many = append(many, e)
	}
	onLoad(mux, func(ctx context.Context, of int) error { return many[of].Emit(ctx, payload()) })
	onEmit(mux, func() error { return emitter.Emit(ctx, payload()) })
	onGet(mux, "/admin/transactions", func(r *http.Request) (any, error) {
		n, err := strconv.Atoi(r.FormValue("n"))
		every, err2 := time.ParseDuration(r.FormValue("every"))
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		commits := map[int64]int64{}
		for range n {
			p := payload()
			occurrence, err := server.Prepare(ctx, emitter, p)
			if err == nil {
				err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return kept.EmitPgx(ctx, tx, occurrence) })
			}
			if err != nil {
				return nil, err
			}
			commits[p.T] = time.Now().UnixNano()
			time.Sleep(every)
		}
		return commits, nil
	})
	onGet(mux, "/admin/cluster", func(r *http.Request) (any, error) { return kept.Cluster(r.Context()) })
	return nil
}

// serveRaw serves the limit for appends: it inserts the rows of occurrences and batches waiting rows into one INSERT.
func serveRaw(mux *http.ServeMux, database string) error {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return err
	}
	config.MaxConns = 1
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS raw (position bigserial PRIMARY KEY, log bigint NOT NULL,
		appended timestamptz NOT NULL DEFAULT clock_timestamp(), event_id bytea NOT NULL, timestamp text NOT NULL, data bytea NOT NULL)`); err != nil {
		return err
	}
	rows := make(chan rawRow, writeBatch)
	go func() {
		for first := range rows {
			group := []rawRow{first}
			for more := true; more && len(group) < writeBatch; {
				select {
				case r := <-rows:
					group = append(group, r)
				default:
					more = false
				}
			}
			insertRaw(ctx, pool, group)
		}
	}()
	onLoad(mux, func(_ context.Context, of int) error {
		data, err := json.Marshal(payload())
		if err != nil {
			return err
		}
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		r := rawRow{int64(of), id.String(), time.Now().UTC().Format(time.RFC3339Nano), data, make(chan error, 1)}
		rows <- r
		return <-r.done
	})
	return nil
}

type rawRow struct {
	log           int64
	id, timestamp string
	data          []byte
	done          chan error
}

func insertRaw(ctx context.Context, pool *pgxpool.Pool, group []rawRow) {
	var logs []int64
	var ids, data [][]byte
	var timestamps []string
	for _, r := range group {
		logs = append(logs, r.log)
		ids, data, timestamps = append(ids, []byte(r.id)), append(data, r.data), append(timestamps, r.timestamp)
	}
	_, err := pool.Exec(ctx, `INSERT INTO raw (log, event_id, timestamp, data)
		SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::text[], $4::bytea[])`, logs, ids, timestamps, data)
	for _, r := range group {
		r.done <- err
	}
}

// serveClock serves a receiver that records the age of each occurrence on arrival, except at noisy endpoints. They take
// as long as their paths say, from the second request on.
func serveClock(mux *http.ServeMux) {
	var seen sync.Map
	mux.HandleFunc("POST /noisy/{took}/", func(w http.ResponseWriter, r *http.Request) {
		took, _ := time.ParseDuration(r.PathValue("took"))
		if _, again := seen.LoadOrStore(r.URL.Path, true); again {
			time.Sleep(took)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	var mu sync.Mutex
	var ages []time.Duration
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		var o struct {
			Data struct{ T int64 }
		}
		if err := json.NewDecoder(r.Body).Decode(&o); err == nil && o.Data.T > 0 {
			mu.Lock()
			ages = append(ages, now.Sub(time.Unix(0, o.Data.T)))
			mu.Unlock()
		}
		w.WriteHeader(http.StatusNoContent)
	})
	onGet(mux, "/admin/ages", func(*http.Request) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		some := ages
		ages = nil
		return some, nil
	})
}
