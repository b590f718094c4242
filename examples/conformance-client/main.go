// Command conformance-client is the client that the public conformance suite of MCP Events starts against its
// scenarios:
//
//	MCP_CONFORMANCE_SCENARIO=events-client-poll MCP_CONFORMANCE_CONTEXT='{"durationMs":10000}' conformance-client http://127.0.0.1:3000/mcp
//
// It connects to the URL in its last argument with default options, lists the event types and subscribes to each in its
// only mode. It exits after durationMs. It does not send requests to a server that does not support the extension. It
// prints events and errors to standard error, one per line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "conformance-client:", err)
		os.Exit(1)
	}
}

// defaultDuration is how long the client runs if the suite does not set a duration.
const defaultDuration = 10 * time.Second

// duration reads MCP_CONFORMANCE_CONTEXT.
func duration(text string) (time.Duration, error) {
	if text == "" {
		return defaultDuration, nil
	}
	var c struct {
		DurationMs float64 `json:"durationMs"`
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return 0, fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
	}
	if c.DurationMs <= 0 {
		return defaultDuration, nil
	}
	return time.Duration(c.DurationMs * float64(time.Millisecond)), nil
}

func run(ctx context.Context, args []string, env func(string) string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: conformance-client URL")
	}
	lasts, err := duration(env("MCP_CONFORMANCE_CONTEXT"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// The suite checks only the subscription request. It does not send requests to the callback.
	o := client.Options{Webhook: &client.WebhookOptions{PublicURL: "https://" + listener.Addr().String(), Listener: listener}}
	c, err := client.Connect(ctx, client.HTTP(args[len(args)-1], nil), o)
	if err != nil {
		return err
	}
	defer c.Close()
	listed, err := c.List(ctx)
	switch {
	case errors.Is(err, client.ErrNoEvents):
		fmt.Fprintln(out, "the server has no events")
	case err != nil:
		return err
	}
	var subscribed sync.WaitGroup
	for _, d := range listed {
		subscribed.Go(func() { receive(ctx, c, d.Name, out) })
	}
	<-ctx.Done()
	subscribed.Wait()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil // the time is up
	}
	return ctx.Err()
}

// receive prints the events of one type until ctx ends.
func receive(ctx context.Context, c *client.Client, name string, out io.Writer) {
	sub, err := client.Subscribe(ctx, c, client.Dynamic(name), json.RawMessage(nil))
	if err != nil {
		fmt.Fprintf(out, "%s: %v\n", name, err)
		return
	}
	for ev, err := range sub.Events() {
		if err != nil {
			fmt.Fprintf(out, "%s: %v\n", name, err)
			continue
		}
		fmt.Fprintf(out, "%s by %s: %s %s\n", name, sub.Subscription().Mode(), ev.ID, ev.Raw)
	}
}
