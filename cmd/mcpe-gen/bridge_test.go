package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
)

// callAgent is the script command "agent TOOL ARGUMENTS PATTERN ARGS…": an agent that starts mcpe-gen ARGS, calls a tool of it
// until the text of the result matches, a minute at most, and ends it in order.
func callAgent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: agent TOOL ARGUMENTS PATTERN ARGS…")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var said lines
	cmd := program(ts, args[3:])
	cmd.Stderr = &said
	agent := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{Logger: slog.New(slog.DiscardHandler)})
	session, err := agent.Connect(ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Minute}, nil)
	ts.Check(err)
	pattern, text := regexp.MustCompile(args[2]), ""
	for !pattern.MatchString(text) {
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: args[0], Arguments: json.RawMessage(args[1])})
		if err != nil {
			session.Close()
			ts.Fatalf("%v; the last result is %s; the bridge said %s", err, text, said.String())
		}
		text = res.Content[0].(*mcp.TextContent).Text
		if ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	ts.Check(session.Close())
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		ts.Fatalf("the bridge ended with %d: %s", code, said.String())
	}
}
