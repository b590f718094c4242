package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/templates"
)

// upstreamTimeout is how long init waits for the answers of the MCP server behind a gateway.
const upstreamTimeout = 5 * time.Second

// checkUpstream sets the options that --beside implies and rejects conflicting ones.
func (s *initOptions) checkUpstream(given func(flag string) bool) error {
	switch {
	case s.service != "":
		return errors.New("--beside with --from: the MCP server emits the events of a gateway; run init once for each")
	case given("transport") && s.transport != "http":
		return fmt.Errorf("--beside: the gateway speaks HTTP with clients and with the MCP server, and --transport is %s", s.transport)
	case s.source != "emit":
		return fmt.Errorf("--beside: the MCP server emits the events, and --source is %s", s.source)
	}
	s.transport = "http"
	if err := templates.CheckUpstream(s.upstream); err != nil {
		return fmt.Errorf("--beside: %w", err)
	}
	return nil
}

// learnCallers asks the MCP server of a gateway whether it answers callers without a token, and sets the result in t. It
// returns a sentence about how the gateway knows its callers, or "" if t is not a gateway.
func learnCallers(ctx context.Context, t *templates.Scaffold) string {
	if t.Upstream == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, upstreamTimeout)
	defer cancel()
	err := askAnonymously(ctx, t.Upstream)
	t.Upstream.Open = err == nil
	told := "the MCP server at " + t.Upstream.URL
	switch failed, ok := errors.AsType[net.Error](err); {
	case ok:
		told += " did not answer (" + plain.Text(failed.Error()) + ")"
	case err != nil:
		told += " did not accept a request without a token (" + plain.Text(err.Error()) + ")"
	default:
		told += " answers requests without a token"
	}
	switch {
	case t.Auth != "none":
		return told + "; the gateway asks for an access token (--auth " + t.Auth + "), and then asks the MCP server."
	case t.Upstream.Open:
		return told + ", so nobody is authenticated and every caller receives every event. Add --auth bearer or --auth oauth to change this."
	}
	return told + ", so the gateway asks it before each call about events. For webhooks, callers need a principal: " +
		"complete the function principal in gateway.go, or add --auth oauth."
}

// askAnonymously connects to an MCP server without a token and lists its tools. It returns nil if the server answers
// both, and otherwise the refusal or the failure. It sets ToolsOnly if only the list was refused.
func askAnonymously(ctx context.Context, b *templates.Upstream) error {
	own := http.DefaultTransport.(*http.Transport).Clone()
	defer own.CloseIdleConnections()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "mcpe-gen", Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: b.URL, HTTPClient: &http.Client{Transport: own, Timeout: upstreamTimeout},
			DisableStandaloneSSE: true, MaxRetries: -1}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	_, err = session.ListTools(ctx, nil)
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && wire.Code == jsonrpc.CodeMethodNotFound {
		return nil // it has no tools
	}
	b.ToolsOnly = err != nil
	return err
}
