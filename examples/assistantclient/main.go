// Command assistantclient demonstrates the features of each protocol for a client. It starts the assistant server
// (examples/assistant) on stdio, subscribes by MCP Events and by MCPE, raises an incident, runs a report in the
// background (MCPC) and requests context for a user's message (conversation events):
//
//	assistantclient path/to/assistant -stdio
//
// It prints a few lines for each protocol and exits with 1 if a result is missing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/assistant/report"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/assistant"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/assistant/assistantclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/conversation"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/mcpcclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpeclient"
)

func main() {
	timeout := flag.Duration("timeout", 15*time.Second, "how long everything may take")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: assistantclient [-timeout D] SERVER [ARG...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	if err := run(ctx, client.Command(flag.Arg(0), flag.Args()[1:]...), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "assistantclient:", err)
		os.Exit(1)
	}
}

// run demonstrates the protocols one after the other. Each connection to the server starts a separate process.
func run(ctx context.Context, server mcp.Transport, out io.Writer) error {
	sdk := mcp.NewClient(&mcp.Implementation{Name: "assistantclient", Version: "0.1.0"}, nil)
	if err := conversation.Install(sdk); err != nil {
		return err
	}
	c, err := client.Connect(ctx, server, client.Options{Client: sdk})
	if err != nil {
		return err
	}
	err = errors.Join(subscriptions(ctx, c, out), memories(ctx, c, out))
	if err = errors.Join(err, c.Close()); err != nil {
		return err
	}
	return runReport(ctx, server, out)
}

// An item is an event or error of a subscription.
type item struct {
	payload assistant.IncidentCreatedPayload
	err     error
}

// receiveItems returns a channel of the items of a subscription. It reads until the subscription ends.
func receiveItems(sub *assistantclient.IncidentCreatedSubscription) <-chan item {
	items := make(chan item, 16)
	go func() {
		defer close(items)
		for ev, err := range sub.Events() {
			if !errors.As(err, new(*client.GapError)) {
				items <- item{ev.Data, err}
			}
		}
	}()
	return items
}

// next waits for an incident.
func next(ctx context.Context, by string, items <-chan item, want string) (p assistant.IncidentCreatedPayload, err error) {
	select {
	case i := <-items:
		if i.err != nil {
			return p, fmt.Errorf("%s: %w", by, i.err)
		}
		if i.payload.IncidentID != want {
			return p, fmt.Errorf("%s brought %+v instead of %s", by, i.payload, want)
		}
		return i.payload, nil
	case <-ctx.Done():
		return p, fmt.Errorf("%s brought nothing: %w", by, ctx.Err())
	}
}

// subscriptions receives the same incident with two protocols.
func subscriptions(ctx context.Context, c *client.Client, out io.Writer) error {
	events, err := assistantclient.SubscribeIncidentCreated(ctx, c, assistant.IncidentCreatedArguments{Severity: assistant.SeverityP1}, client.WithMode("push"))
	if err != nil {
		return fmt.Errorf("MCP Events: %w", err)
	}
	defer events.Close()
	m := mcpeclient.New(c)
	tagged, err := assistantclient.SubscribeIncidentCreated(ctx, c, assistant.IncidentCreatedArguments{}, m.Via(mcpeclient.Options{Tags: []string{"ops"}}))
	if err != nil {
		return fmt.Errorf("MCPE: %w", err)
	}
	defer tagged.Close()
	byEvents, byMCPE := receiveItems(events), receiveItems(tagged)

	minor, err := raise(ctx, c.Session(), map[string]any{"title": "Slow search", "service": "search", "severity": "P3"})
	if err != nil {
		return err
	}
	worst, err := raise(ctx, c.Session(), map[string]any{"title": "Payments fail", "severity": "P1"})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "MCP Events: subscribed to incident.created by push, severity=P1")
	p, err := next(ctx, "MCP Events", byEvents, worst)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  %s %s %s: %s\n", p.IncidentID, p.Severity, p.Service, p.Title)
	fmt.Fprintln(out, "\nMCPE: subscribed to incident.created by the tool events_subscribe, tag ops")
	for _, id := range []string{minor, worst} {
		if p, err = next(ctx, "MCPE", byMCPE, id); err != nil {
			return err
		}
		fmt.Fprintf(out, "  %s %s %s: %s\n", p.IncidentID, p.Severity, p.Service, p.Title)
	}
	return nil
}

// raise calls raise_incident and returns the incident's id.
func raise(ctx context.Context, s *mcp.ClientSession, args map[string]any) (string, error) {
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "raise_incident", Arguments: args})
	if err != nil {
		return "", fmt.Errorf("raise_incident: %w", err)
	}
	content, _ := res.StructuredContent.(map[string]any)
	id, _ := content["incidentId"].(string)
	if res.IsError || id == "" {
		return "", fmt.Errorf("raise_incident answered %+v", res)
	}
	return id, nil
}

// memories requests context for a message, with the user's consent.
func memories(ctx context.Context, c *client.Client, out io.Writer) error {
	consents := conversation.NewConsents()
	hub := conversation.NewHub(conversation.HubOptions{Consents: consents, Timeout: 5 * time.Second})
	if err := hub.Add("assistant", c.Session(), conversation.ServerOptions{}); err != nil {
		return err
	}
	message := conversation.Message{MessageID: "1", Content: "Is checkout down?"}
	before, err := hub.UserMessage(ctx, message)
	if err != nil {
		return err
	}
	if before.Text != "" || len(before.Contributions) > 0 {
		return errors.New("conversation events: a server without consent was asked")
	}
	if err := consents.Grant(ctx, conversation.Consent{Server: "assistant"}); err != nil {
		return err
	}
	in, err := hub.UserMessage(ctx, message)
	if err != nil {
		return err
	}
	if !strings.Contains(in.Text, "Payments fail") {
		return fmt.Errorf("conversation events: the server added %q", in.Text)
	}
	fmt.Fprintf(out, "\nConversation events: the user has approved the server and says %q; the server adds\n", message.Content)
	for line := range strings.Lines(in.Text) {
		fmt.Fprint(out, "  ", line)
	}
	return nil
}

// runReport calls a background task, receives its updates, and receives an incident while the task is running.
func runReport(ctx context.Context, server mcp.Transport, out io.Writer) error {
	sdk := mcp.NewClient(&mcp.Implementation{Name: "assistantclient", Version: "0.1.0"}, nil)
	c, err := mcpcclient.Connect(ctx, sdk, server, mcpcclient.Options{})
	if err != nil {
		return err
	}
	defer c.Shutdown(ctx)
	if _, ok := c.Support(); !ok {
		return errors.New("MCPC: the server does not speak it")
	}
	heard := make(chan string, 16)
	defer mcpcclient.Listen(c, report.Task, mcpcclient.Listener[report.Progress, report.Report]{
		Update: func(_ context.Context, _ task.Message, p report.Progress) {
			heard <- fmt.Sprintf("update: %d of %d", p.Done, p.Of)
		},
		Complete: func(_ context.Context, _ task.Message, r report.Report) {
			heard <- fmt.Sprintf("complete: %q has %d incident", r.Title, r.Incidents)
		},
	})()
	told := make(chan string, 16)
	defer mcpcclient.ListenEvent(c, "incident.created", func(_ context.Context, _ task.Message, p assistant.IncidentCreatedPayload) {
		told <- p.IncidentID
	})()
	id, err := raise(ctx, c.Session(), nil)
	if err != nil {
		return err
	}
	running, err := mcpcclient.Call(ctx, c, report.Task, report.Arguments{})
	if err != nil {
		return err
	}
	// The call returns the message "created". The result follows later.
	if answer, _ := running.Answer.StructuredContent.(map[string]any); answer["event"] != "created" {
		return errors.New("MCPC: the tool did not answer at once")
	}
	fmt.Fprintln(out, "\nMCPC: write_report answered at once and works in the background")
	if _, err := running.Wait(ctx); err != nil {
		return fmt.Errorf("MCPC: %w", err)
	}
	for range 4 { // three updates and the result; Wait returns after the listeners
		select {
		case line := <-heard:
			fmt.Fprintln(out, "  "+line)
		case <-ctx.Done():
			return fmt.Errorf("MCPC: updates are missing: %w", ctx.Err())
		}
	}
	select {
	case got := <-told:
		if got != id {
			return fmt.Errorf("MCPC: a server event of %s instead of %s", got, id)
		}
	case <-ctx.Done():
		return fmt.Errorf("MCPC: no server event: %w", ctx.Err())
	}
	fmt.Fprintln(out, "  server event incident.created:", id)
	return c.Shutdown(ctx)
}
