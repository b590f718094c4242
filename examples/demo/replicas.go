package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/throwaway"
)

// deskTickets is the number of tickets to open before and after a replica is killed.
const deskTickets = 20

// replicas runs two processes of one server on PostgreSQL behind a load balancer. It kills one of them, and no
// subscriber misses an event. If PostgreSQL is not installed, it prints a message.
func replicas(ctx context.Context, w io.Writer, bin string) (err error) {
	fmt.Fprintln(w, "\nTwo replicas on PostgreSQL; one is killed")
	url, stop, err := throwaway.Start(filepath.Join(bin, "throwaway"))
	if errors.Is(err, throwaway.ErrMissing) && os.Getenv("MCPE_TEST_POSTGRES_REQUIRED") == "" {
		fmt.Fprintln(w, "  NOT SHOWN: PostgreSQL is not installed here.")
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var desks []*process
	var addresses []string
	for range 2 {
		p, err := spawn(filepath.Join(bin, "tickets"), "-http", "127.0.0.1:0", "-database", url, "-lease", "1s")
		if err != nil {
			return err
		}
		defer p.kill()
		address, err := p.waitFor(ctx, "listening on ")
		if err != nil {
			return err
		}
		desks, addresses = append(desks, p), append(addresses, address)
	}
	front := httptest.NewServer(roundRobin(addresses))
	defer front.Close()
	fmt.Fprintf(w, "  %s serve behind a round-robin balancer.\n", strings.Join(addresses, " and "))

	var watchers []*process
	for _, mode := range []string{"push", "poll"} {
		watcher, err := spawn(filepath.Join(bin, "watch"), "-mode", mode, "-event", "ticket.created", "-url", front.URL+"/mcp")
		if err != nil {
			return err
		}
		defer watcher.kill()
		if _, err := watcher.waitFor(ctx, "subscribed to "); err != nil {
			return err
		}
		watchers = append(watchers, watcher)
	}
	var want []string
	open := func() error {
		for range deskTickets {
			id := fmt.Sprintf("T-%d", len(want)+1)
			if err := openTicket(ctx, front.URL, id); err != nil {
				return err
			}
			want = append(want, "ticket-"+id)
		}
		return nil
	}
	if err := open(); err != nil {
		return err
	}
	killed := time.Now()
	desks[0].kill()
	fmt.Fprintf(w, "  %s is killed with %d tickets in flight; %d more are opened.\n", addresses[0], deskTickets, deskTickets)
	if err := open(); err != nil {
		return err
	}
	for i, mode := range []string{"stream", "poller"} {
		if err := gotOnce(ctx, watchers[i], want); err != nil {
			return fmt.Errorf("the %s: %w", mode, err)
		}
		fmt.Fprintf(w, "  The %s has all %d, each once, %.1f s after the kill; its next event came after %.2f s.\n",
			mode, len(want), time.Since(killed).Seconds(), watchers[i].next(killed).Sub(killed).Seconds())
	}
	return desks[1].end()
}

// roundRobin sends each request to the next server, even if the server is down.
func roundRobin(bases []string) http.Handler {
	var urls []*url.URL
	for _, b := range bases {
		u, err := url.Parse(b)
		if err != nil {
			panic(err) // the servers printed these URLs
		}
		urls = append(urls, u)
	}
	var next atomic.Uint64
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(urls[next.Add(1)%uint64(len(urls))]) },
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
}

// openTicket retries until the ticket is open. If a server does not respond, it sends the same request to the next
// server.
func openTicket(ctx context.Context, base, id string) error {
	for {
		body := strings.NewReader(`{"title":"The printer is on fire","severity":"high"}`)
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, base+"/tickets/"+id, body)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		switch {
		case resp.StatusCode/100 == 2:
			return nil
		case resp.StatusCode != http.StatusBadGateway && resp.StatusCode != http.StatusServiceUnavailable:
			return fmt.Errorf("opening %s: %s", id, resp.Status)
		}
	}
}

// gotOnce waits until a watcher has printed all ids. It returns an error for a duplicate or unexpected id.
func gotOnce(ctx context.Context, w *process, want []string) error {
	for w.count() < len(want) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d events: %w", w.count(), len(want), ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	var got []string
	for _, l := range w.lines() {
		var line struct {
			EventID string `json:"eventId"`
		}
		if err := json.Unmarshal([]byte(l), &line); err != nil {
			return fmt.Errorf("watch printed %q: %w", l, err)
		}
		got = append(got, line.EventID)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("it got %q, want %q", got, want)
	}
	return nil
}
