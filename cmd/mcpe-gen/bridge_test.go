package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os/exec"
	"regexp"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
)

// callAgent is the script command "agent TOOL ARGUMENTS PATTERN ARGS…": an agent that starts mcpe-gen ARGS, calls a
// tool of it until the text of the result matches, a minute at most, and ends it in order.
func callAgent(ts *testscript.TestScript, neg bool, args []string) { callAgents(ts, neg, args, 1) }

// callTwoAgents is the script command "agents", which is "agent" for two that run at the same time.
func callTwoAgents(ts *testscript.TestScript, neg bool, args []string) { callAgents(ts, neg, args, 2) }

func callAgents(ts *testscript.TestScript, neg bool, args []string, n int) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: agent TOOL ARGUMENTS PATTERN ARGS…")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all []*scriptAgent
	for range n {
		all = append(all, startAgent(ctx, ts, args[3:]))
	}
	for _, a := range all {
		a.until(ctx, ts, args[0], args[1], regexp.MustCompile(args[2]))
	}
	for _, a := range all {
		ts.Check(a.session.Close())
		if code := a.cmd.ProcessState.ExitCode(); code != 0 {
			ts.Fatalf("the bridge ended with %d: %s", code, a.said.String())
		}
	}
}

// A scriptAgent is an agent with the bridge that it has started.
type scriptAgent struct {
	cmd     *exec.Cmd
	said    clitest.Lines
	session *mcp.ClientSession
}

func startAgent(ctx context.Context, ts *testscript.TestScript, args []string) *scriptAgent {
	a := &scriptAgent{cmd: program(ts, args)}
	a.cmd.Stderr = &a.said
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{Logger: slog.New(slog.DiscardHandler)})
	var err error
	a.session, err = client.Connect(ctx, &mcp.CommandTransport{Command: a.cmd, TerminateDuration: time.Minute}, nil)
	ts.Check(err)
	return a
}

// until calls a tool until its result matches.
func (a *scriptAgent) until(ctx context.Context, ts *testscript.TestScript, tool, args string, pattern *regexp.Regexp) {
	text := ""
	for !pattern.MatchString(text) {
		res, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
		if err != nil {
			a.session.Close()
			ts.Fatalf("%v; the last result is %s; the bridge said %s", err, text, a.said.String())
		}
		text = res.Content[0].(*mcp.TextContent).Text
		if ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
}
