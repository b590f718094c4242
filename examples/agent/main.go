// Command agent shows how a coding agent receives events through `mcpe-gen bridge` (docs/agents.md). It needs neither a
// model nor a network:
//
//	go build -o bin/ ./cmd/mcpe-gen ./examples/agent && ./bin/agent -bridge bin/mcpe-gen
//
// It simulates an agent with two configured MCP servers: a CI system (ci.go), and the bridge, which subscribes to that
// system's events. The agent waits, receives three runs of a commit in one batch, reruns the failed run with a tool of
// the CI system, and exits. The rerun completes while neither the agent nor the bridge is running. After a restart, the
// agent waits again and receives the missed event, without duplicates.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/ci"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program := flag.String("bridge", "mcpe-gen", "the program mcpe-gen")
	flag.Parse()
	if err := run(ctx, *program, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// run runs the whole scenario once and prints the steps.
func run(ctx context.Context, program string, out io.Writer) (err error) {
	state, err := os.MkdirTemp("", "agent-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
	cis, err := startCI(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cis.close()) }()

	a, err := newAgent(ctx, program, state, cis.url)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "agent: waits for CI")
	for i, conclusion := range []ci.RunCompletedPayloadConclusion{"success", "failure", "success"} {
		job := []string{"build", "test", "lint"}[i]
		r := ci.RunCompletedPayload{RunID: fmt.Sprint("run-", i+1), Job: job, Branch: "main", Commit: "4f2a91c", Conclusion: conclusion}
		if err := cis.complete(ctx, r); err != nil {
			return errors.Join(err, a.end())
		}
	}
	failed, err := a.wait(ctx, 3, out)
	if err == nil {
		err = a.act(ctx, failed, out)
	}
	if err = errors.Join(err, a.end()); err != nil {
		return err
	}
	fmt.Fprintln(out, "agent: ends, and the bridge with it")
	if err := cis.finish(ctx); err != nil {
		return err
	}

	if a, err = newAgent(ctx, program, state, cis.url); err != nil {
		return err
	}
	fmt.Fprintln(out, "agent: is back, and waits")
	failed, err = a.wait(ctx, 1, out)
	if err == nil && len(failed) > 0 {
		err = fmt.Errorf("failed again: %v", failed)
	}
	return errors.Join(err, a.end())
}

// An agent is connected to its two servers.
type agent struct{ bridge, ci *mcp.ClientSession }

// newAgent starts the bridge, as an agent starts a configured server, and waits until the bridge receives events.
func newAgent(ctx context.Context, program, state, url string) (*agent, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "0.1.0"}, nil)
	cmd := exec.Command(program, "bridge", "--state", state, url, "run.completed")
	cmd.Stderr = os.Stderr
	a := &agent{}
	var err error
	if a.bridge, err = client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil); err != nil {
		return nil, fmt.Errorf("starting the bridge: %w", err)
	}
	if a.ci, err = client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, nil); err != nil {
		return nil, errors.Join(err, a.bridge.Close())
	}
	for {
		var found struct{ Subscriptions []struct{ State string } }
		if err := call(ctx, a.bridge, "events_subscriptions", map[string]any{}, &found); err != nil {
			return nil, errors.Join(err, a.end())
		}
		if len(found.Subscriptions) == 1 && found.Subscriptions[0].State == "active" {
			return a, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), a.end())
		}
	}
}

func (a *agent) end() error { return errors.Join(a.ci.Close(), a.bridge.Close()) }

// wait waits for the given number of runs, and returns the ids of the failed runs.
func (a *agent) wait(ctx context.Context, runs int, out io.Writer) (failed []string, err error) {
	for runs > 0 {
		var found struct {
			Batches []struct {
				Count  int
				Events []struct{ Data ci.RunCompletedPayload }
			}
		}
		if err := call(ctx, a.bridge, "events_wait", map[string]any{"waitSeconds": 20}, &found); err != nil {
			return nil, err
		}
		for _, b := range found.Batches {
			fmt.Fprintf(out, "agent: woken by a batch of %d\n", b.Count)
			runs -= b.Count
			for _, e := range b.Events {
				fmt.Fprintf(out, "  %s of %s: %s\n", e.Data.Job, e.Data.Commit, e.Data.Conclusion)
				if e.Data.Conclusion == ci.RunCompletedPayloadConclusionFailure {
					failed = append(failed, e.Data.RunID)
				}
			}
		}
	}
	return failed, nil
}

// act reruns the failed runs.
func (a *agent) act(ctx context.Context, failed []string, out io.Writer) error {
	for _, id := range failed {
		text, err := callText(ctx, a.ci, "rerun_job", map[string]any{"runId": id})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "agent: calls rerun_job: %s\n", text)
	}
	return nil
}

// call calls a tool and decodes its JSON result.
func call(ctx context.Context, s *mcp.ClientSession, tool string, args map[string]any, result any) error {
	text, err := callText(ctx, s, tool, args)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), result); err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	return nil
}

func callText(ctx context.Context, s *mcp.ClientSession, tool string, args map[string]any) (string, error) {
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", fmt.Errorf("%s: %w", tool, err)
	}
	var text strings.Builder
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	if res.IsError {
		return "", fmt.Errorf("%s: %s", tool, text.String())
	}
	return text.String(), nil
}
