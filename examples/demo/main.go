// Command demo demonstrates the project's main features end to end with real processes. It starts the GitHub events
// server over HTTP and stdio, subscribes by poll and push with different filters, replays real GitHub webhook bodies
// and shows the events that each subscriber received. Then it subscribes by webhook with a receiver that fails, rotates
// the secret and kills the server. It also shows what MCPE, MCPC and conversation events add to a server, and how a
// coding agent uses the bridge. If PostgreSQL is installed, it also kills a replica. The parts run concurrently. The
// command exits with 1 if an event is missing, duplicate or unexpected.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	secret = "demo-secret" // shared by GitHub and the server
	token  = "demo-token"  // of the subscribers
	// bound is the maximum duration of the whole demo on a busy machine.
	bound = 2 * time.Minute
)

func main() {
	bin := flag.String("bin", "bin", "directory of the built github, watch, assistant, assistantclient, agent, mcpe-gen, tickets and throwaway programs")
	bodies := flag.String("bodies", "examples/github/testdata", "directory of GitHub's webhook bodies")
	onPage := flag.Bool("page", false, "serve a web page on loopback, on which events go out by poll, push and webhook, in place of the demo")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := do(ctx, *bin, *bodies, *onPage); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// do serves the page if onPage is set. Otherwise it runs all parts and, if DEMO_CONSOLE is set, serves the console.
func do(ctx context.Context, bin, bodies string, onPage bool) error {
	if onPage {
		return withTokens(func(tokens string) error { return page(ctx, bin, bodies, tokens, os.Stdout) })
	}
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if err := run(bounded, bin, bodies); err != nil || os.Getenv("DEMO_CONSOLE") == "" {
		return err
	}
	return withTokens(func(tokens string) error { return console(ctx, bin, bodies, tokens, os.Stdout) })
}

// withTokens creates a file with the subscribers' tokens and calls f with its path.
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

// A part demonstrates a feature. It starts processes, prints to w and stops the processes.
type part func(ctx context.Context, w io.Writer) error

// show runs the parts concurrently, because they mostly wait, and prints their output one after the other.
func show(ctx context.Context, bin, bodies, tokens string) error {
	github := filepath.Join(bin, "github")
	parts := []part{
		func(ctx context.Context, w io.Writer) error { return subscribers(ctx, w, bin, github, bodies, tokens) },
		func(ctx context.Context, w io.Writer) error { return webhooks(ctx, w, github, bodies, tokens) },
		func(ctx context.Context, w io.Writer) error { return protocols(ctx, w, bin) },
		func(ctx context.Context, w io.Writer) error { return codingAgent(ctx, w, bin) },
		func(ctx context.Context, w io.Writer) error { return replicas(ctx, w, bin) },
	}
	side, ctx := errgroup.WithContext(ctx)
	pages, ends := make([]bytes.Buffer, len(parts)), make([]chan struct{}, len(parts))
	for i, p := range parts {
		ends[i] = make(chan struct{})
		var w io.Writer = &pages[i]
		if i == 0 {
			w = os.Stdout
		}
		side.Go(func() error {
			defer close(ends[i])
			return p(ctx, w)
		})
	}
	for i := range parts {
		<-ends[i]
		os.Stdout.Write(pages[i].Bytes())
	}
	if err := side.Wait(); err != nil {
		return err
	}
	fmt.Println("\nEvery subscriber received exactly what it asked for, once.")
	return nil
}
