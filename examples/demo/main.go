// Command demo shows the main job end to end with real processes: it starts the GitHub events server
// over HTTP and over stdio, subscribes by poll and by push with different filters, replays real
// bodies of GitHub's webhooks and shows what each subscriber received; then it subscribes by webhook
// with a receiver that fails, rotates the secret and kills the server. It shows what MCPE, MCPC and
// conversation events add to one server, and what a coding agent gets by the bridge, and kills one of
// two replicas on PostgreSQL, where that is installed. All of it happens side by side. It exits with 1 when an event is missing, doubled or not asked for.
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
	// bound is how long the whole demo may take, on a machine that is busy with other things.
	bound = 2 * time.Minute
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

// A part shows one thing: it starts what it needs, prints to w and ends what it started.
type part func(ctx context.Context, w io.Writer) error

// show runs the parts side by side, since most of their time is waiting, and prints them one after the other.
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
