package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
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

// benchAttempts measures the cost of recording each attempt in each durable store.
func benchAttempts(b *bench) {
	attemptsIn(b, "SQLite", b.tempDir)
	if dsn, ok := b.database("attempts in PostgreSQL"); ok {
		attemptsIn(b, "PostgreSQL", func() string { return dsn })
	}
}

func attemptsIn(b *bench, store string, place func() string) {
	receiver := b.start("receiver")
	var measured []func() float64
	for _, attempts := range []int{-1, 0} {
		p := b.start("webhook", receiver.base, place(), attempts)
		b.subscribe(p, hookSubscriptions, "hooks", matching)
		measured = append(measured, func() float64 { return deliver(b, p, receiver) })
	}
	m := b.inTurns(measured...)
	b.against("webhook deliveries in "+store+" with attempts kept, against none kept", m[0], m[1], rate, "≥ 0.90")
}

// firstByte measures the time to the first byte of the console's slowest page.
func firstByte(b *bench, p *process, of string) {
	name, took := b.worst([]string{"overview", "list"}, func(i int) float64 { return b.firstByte(p.base + []string{"/ops/", "/ops/subscriptions"}[i]) })
	b.within("console: first byte of the "+name+", "+of, took, 0.2, duration)
}

// firstByte requests a page and returns the seconds until its first byte.
func (b *bench) firstByte(url string) (took float64) {
	begin := time.Now()
	ctx := httptrace.WithClientTrace(b, &httptrace.ClientTrace{GotFirstResponseByte: func() { took = time.Since(begin).Seconds() }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	b.check(err)
	resp, err := http.DefaultClient.Do(req)
	b.check(err)
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	b.check(err)
	return took
}
