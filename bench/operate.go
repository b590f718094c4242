package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/throwaway"
	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// serveOperators mounts the operators' console.
func serveOperators(mux *http.ServeMux, es *server.Server) error {
	h, err := admin.NewHandler(es, admin.Options{Hosts: []string{"127.0.0.1"},
		Authenticate: func(*http.Request) (string, error) { return "bench", nil }})
	if err == nil {
		mux.Handle("/ops/", http.StripPrefix("/ops", h))
	}
	return err
}

// servePostgres is like serveWebhook with a PostgreSQL database.
func servePostgres(mux *http.ServeMux, dsn string) error {
	st, err := postgres.Open(context.Background(), dsn, postgres.Options{Schema: fmt.Sprintf("bench_%d", os.Getpid())})
	if err != nil {
		return err
	}
	return serveWebhook(mux, st)
}

// benchAttempts measures the cost of recording each attempt in each durable store.
func benchAttempts(ctx context.Context, s settings) ([]row, error) {
	r, err := attemptsIn(ctx, s, "SQLite", "stored", func() (string, func(), error) {
		dir, err := os.MkdirTemp("", "mcpe-bench-")
		return dir, func() { os.RemoveAll(dir) }, err
	})
	if err != nil {
		return nil, err
	}
	rows := []row{r}
	dsn, stop, err := database()
	if errors.Is(err, throwaway.ErrMissing) {
		fmt.Fprintln(os.Stderr, "bench: NOT MEASURED: attempts in PostgreSQL, which is not installed")
		return rows, nil
	}
	if err != nil {
		return nil, err
	}
	defer stop()
	r, err = attemptsIn(ctx, s, "PostgreSQL", "postgres", func() (string, func(), error) { return dsn, func() {}, nil })
	return append(rows, r), err
}

func attemptsIn(ctx context.Context, s settings, store, kind string, place func() (string, func(), error)) (row, error) {
	receiver, err := start(ctx, "receiver")
	if err != nil {
		return row{}, err
	}
	defer receiver.stop()
	var rates [2][]float64 // without and with attempts
	var servers [2]*process
	for i, attempts := range []int{-1, 0} {
		dir, remove, err := place()
		if err != nil {
			return row{}, err
		}
		defer remove()
		p, err := startIn(ctx, kind, dir)
		if err != nil {
			return row{}, err
		}
		defer p.stop()
		if _, err := p.get(fmt.Sprintf("/admin/subscribe?n=%d&matching=%[1]d&url=%s&attempts=%d", hookSubscriptions, receiver.base, attempts)); err != nil {
			return row{}, fmt.Errorf("%s: %w", store, err)
		}
		servers[i] = p
	}
	for range s.rounds {
		for i, p := range servers {
			rate, err := deliver(p, receiver, s.duration)
			if err != nil {
				return row{}, fmt.Errorf("%s: %w", store, err)
			}
			rates[i] = append(rates[i], rate)
		}
	}
	without, with := median(rates[0]), median(rates[1])
	return row{"webhook deliveries in " + store + " with attempts kept, against none kept", perSecond(without), perSecond(with), with / without, "≥ 0.90"}, nil
}

// firstBytes measures the time to the first byte of the console's pages.
func firstBytes(p *process, rounds int, of string) (rows []row, err error) {
	for _, page := range []struct{ name, path string }{{"overview", "/ops/"}, {"list", "/ops/subscriptions"}} {
		var took []float64
		for range rounds {
			d, err := firstByte(p.base + page.path)
			if err != nil {
				return nil, err
			}
			took = append(took, float64(d.Nanoseconds()))
		}
		const target = 200 * time.Millisecond
		m := median(took)
		rows = append(rows, row{"console: first byte of the " + page.name + ", " + of + " (limit: target)", "200 ms", fmt.Sprintf("%.1f ms", m/1e6), m / float64(target), "≤ 1.00"})
	}
	return rows, nil
}

func firstByte(url string) (took time.Duration, err error) {
	begin := time.Now()
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotFirstResponseByte: func() { took = time.Since(begin) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return took, err
}

// storedFirstBytes is like firstBytes for a SQLite store in dir.
func storedFirstBytes(ctx context.Context, rounds int, dir, register string) ([]row, error) {
	p, err := startIn(ctx, "stored", dir)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	if _, err := p.get(register); err != nil {
		return nil, err
	}
	return firstBytes(p, rounds, "100,000 subscriptions in SQLite")
}
