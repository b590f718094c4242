// Command demo shows the main job end to end with real processes: it starts the GitHub events server
// over HTTP and over stdio, subscribes by poll and by push with different filters, replays real
// bodies of GitHub's webhooks and shows what each subscriber received; then it subscribes by webhook
// with a receiver that fails, rotates the secret and kills the server. It shows what MCPE, MCPC and
// conversation events add to one server, and what a coding agent gets by the bridge. At last it kills one of
// two replicas on PostgreSQL, where that is installed. It exits with 1 when an event is missing, doubled or not asked for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const (
	secret = "demo-secret" // shared by GitHub and the server
	token  = "demo-token"  // of the subscribers
	// bound is how long the whole demo may take, on a machine that is busy with other things.
	bound = 2 * time.Minute
	// quiet is how long the demo waits for events that should not come; two poll intervals.
	quiet = 2500 * time.Millisecond
)

func main() {
	bin := flag.String("bin", "bin", "directory of the built github, watch, assistant, assistantclient, agent, mcpe-gen, tickets and throwaway programs")
	bodies := flag.String("bodies", "examples/github/testdata", "directory of GitHub's webhook bodies")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := func() error {
		ctx, cancel := context.WithTimeout(ctx, bound)
		defer cancel()
		return run(ctx, *bin, *bodies)
	}()
	if err == nil && os.Getenv("DEMO_CONSOLE") != "" {
		err = withTokens(func(tokens string) error { return console(ctx, *bin, *bodies, tokens, os.Stdout) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// withTokens calls f with a file of the subscribers' tokens.
func withTokens(f func(file string) error) error {
	tokens, err := os.CreateTemp("", "mcpe-demo-tokens-*.json")
	if err != nil {
		return err
	}
	defer os.Remove(tokens.Name())
	if _, err := fmt.Fprintf(tokens, "{%q: %q}\n", token, "alice"); err != nil {
		return err
	}
	if err := tokens.Close(); err != nil {
		return err
	}
	return f(tokens.Name())
}

func run(ctx context.Context, bin, bodies string) error {
	return withTokens(func(tokens string) error { return show(ctx, bin, bodies, tokens) })
}

func show(ctx context.Context, bin, bodies, tokens string) (err error) {
	db := startDatabase(bin)
	defer func() { err = errors.Join(err, db.end()) }()
	github, watch := filepath.Join(bin, "github"), filepath.Join(bin, "watch")
	server, err := spawn(github, "-http", "127.0.0.1:0", "-github-secret", secret, "-tokens", tokens)
	if err != nil {
		return err
	}
	defer server.kill()
	base, err := server.waitFor(ctx, "listening on ")
	if err != nil {
		return err
	}
	fmt.Printf("The GitHub events server listens on %s.\n", base)

	subscribers := append(overHTTP(base), overStdio(github)...)
	endpoints := []string{base}
	for _, s := range subscribers {
		if s.process, err = spawn(watch, s.argv()...); err != nil {
			return err
		}
		defer s.process.kill()
		if s.ownServer {
			url, err := s.process.waitFor(ctx, "listening on ")
			if err != nil {
				return err
			}
			endpoints = append(endpoints, url)
		}
		if _, err := s.process.waitFor(ctx, "subscribed to "); err != nil {
			return err
		}
	}
	fmt.Printf("%d subscribers wait.\n", len(subscribers))

	sent := 0
	for _, d := range deliveries {
		for _, e := range endpoints {
			if err := post(ctx, e+"/github", filepath.Join(bodies, d.file), d.event, d.id); err != nil {
				return err
			}
		}
		sent++
	}
	fmt.Printf("GitHub sent %d webhooks, one of them twice under one delivery id.\n", sent)

	if err := await(ctx, subscribers); err != nil {
		return err
	}
	var failures []error
	for _, s := range subscribers {
		failures = append(failures, s.process.end(), s.report(os.Stdout))
	}
	failures = append(failures, server.end())
	if err := errors.Join(failures...); err != nil {
		return err
	}
	if err := webhooks(ctx, github, bodies, tokens); err != nil {
		return err
	}
	if err := protocols(ctx, bin); err != nil {
		return err
	}
	if err := codingAgent(ctx, bin); err != nil {
		return err
	}
	if err := replicas(ctx, bin, db); err != nil {
		return err
	}
	fmt.Println("\nEvery subscriber received exactly what it asked for, once.")
	return nil
}

// await returns when every subscriber has what it expects and a quiet time has passed, in which
// what should not come would have come.
func await(ctx context.Context, subscribers []*subscriber) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for complete := false; !complete; {
		select {
		case <-ctx.Done():
			for _, s := range subscribers {
				s.report(os.Stdout)
			}
			return fmt.Errorf("not everything arrived: %w", ctx.Err())
		case <-tick.C:
		}
		complete = true
		for _, s := range subscribers {
			complete = complete && s.process.count() >= len(s.want)
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(quiet):
		return nil
	}
}
