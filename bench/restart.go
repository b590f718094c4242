package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// serveStored is like serveWebhook with a SQLite store below dir.
func serveStored(mux *http.ServeMux, dir string) error {
	st, err := sqlite.Open(context.Background(), filepath.Join(dir, "events.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	mux.HandleFunc("GET /admin/close", func(w http.ResponseWriter, _ *http.Request) {
		if err := st.Close(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return serveWebhook(mux, st)
}

// benchRestart measures the start of a server with 100,000 webhook subscriptions in SQLite. Ten of them match the
// emitted events. It measures the time until the event type is registered, and the time until the first delivery of an
// event emitted afterwards.
func benchRestart(ctx context.Context, s settings) ([]row, error) {
	receiver, err := start(ctx, "receiver")
	if err != nil {
		return nil, err
	}
	defer receiver.stop()
	dir, err := os.MkdirTemp("", "mcpe-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	const n, matching = 100_000, 10
	subscribe := func(n int) string {
		return fmt.Sprintf("/admin/subscribe?n=%d&matching=%d&url=%s", n, matching, receiver.base)
	}
	seed, err := startIn(ctx, "stored", dir)
	if err != nil {
		return nil, err
	}
	defer seed.stop()
	for _, path := range []string{subscribe(n), "/admin/close"} {
		if _, err := seed.get(path); err != nil {
			return nil, err
		}
	}
	seed.stop()

	var started, delivered []float64
	for range s.rounds {
		up, first, err := restart(ctx, receiver, dir, subscribe(0))
		if err != nil {
			return nil, err
		}
		started, delivered = append(started, up), append(delivered, first)
	}
	up, first := median(started), median(delivered)
	lists, err := storedFirstBytes(ctx, s.rounds, dir, subscribe(0))
	if err != nil {
		return nil, err
	}
	return append([]row{
		{"start with 100,000 webhook subscriptions in SQLite (limit: target)", seconds(3), seconds(up), up / 3, "≤ 1.00"},
		{"first delivery after it (limit: target)", seconds(5), seconds(first), first / 5, "≤ 1.00"},
	}, lists...), nil
}

// restart starts a server on dir, registers its type and emits one event. It returns the seconds from the start until
// the type was registered and until the receiver was first called.
func restart(ctx context.Context, receiver *process, dir, register string) (up, first float64, err error) {
	before, err := receiver.counts()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	p, err := startIn(ctx, "stored", dir)
	if err != nil {
		return 0, 0, err
	}
	defer p.stop()
	if _, err := p.get(register); err != nil {
		return 0, 0, err
	}
	up = time.Since(begin).Seconds()
	if err := p.emit(1); err != nil {
		return 0, 0, err
	}
	if err := receiver.waitRequests(before.Requests + 1); err != nil {
		return 0, 0, err
	}
	first = time.Since(begin).Seconds()
	// Wait for the remaining deliveries, so that they are not counted for the next restart.
	if err := receiver.waitRequests(before.Requests + 10); err != nil {
		return 0, 0, err
	}
	_, err = p.get("/admin/close")
	return up, first, err
}
