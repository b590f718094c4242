package server_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// AUTH-3: handlers of tools, prompts, resources and completions learn the caller from PrincipalOf: the token's user, or
// whom the author's function names, which is asked once for a request.
func TestPrincipalOfInHandlers(t *testing.T) {
	for name, c := range map[string]struct {
		derives bool
		want    string
	}{"the token's user": {false, "ann"}, "the author's function": {true, "acme/ann"}} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			o := server.Options{}
			if c.derives {
				o.Principal = func(_ context.Context, extra *mcp.RequestExtra) string {
					asked++
					return "acme/" + extra.TokenInfo.UserID
				}
			}
			seen := map[string]string{}
			session := connectAs(t, "ann", o, func(srv *mcp.Server, a *mcpc.Adapter) {
				srv.AddTool(&mcp.Tool{Name: "do", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					seen["tool"], seen["adapter"] = server.PrincipalOf(ctx), a.SessionOf(ctx, req).Principal
					return &mcp.CallToolResult{}, nil
				})
				srv.AddPrompt(&mcp.Prompt{Name: "ask"}, func(ctx context.Context, _ *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
					seen["prompt"] = server.PrincipalOf(ctx)
					return &mcp.GetPromptResult{}, nil
				})
				srv.AddResource(&mcp.Resource{Name: "r", URI: "test://r"}, func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
					seen["resource"] = server.PrincipalOf(ctx)
					return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://r"}}}, nil
				})
			}, func(ctx context.Context) { seen["completion"] = server.PrincipalOf(ctx) })
			ctx := t.Context()
			for what, call := range map[string]func() error{
				"tool":   func() error { _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "do"}); return err },
				"prompt": func() error { _, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "ask"}); return err },
				"resource": func() error {
					_, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://r"})
					return err
				},
				"completion": func() error {
					_, err := session.Complete(ctx, &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "ask"},
						Argument: mcp.CompleteParamsArgument{Name: "a"}})
					return err
				},
			} {
				asked = 0
				if err := call(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if seen[what] != c.want {
					t.Errorf("%s: PrincipalOf is %q, want %q", what, seen[what], c.want)
				}
				if c.derives && asked != 1 {
					t.Errorf("%s: the author's function was asked %d times for a request", what, asked)
				}
			}
			if seen["adapter"] != c.want {
				t.Errorf("the session's principal is %q", seen["adapter"])
			}
		})
	}
}

// connectAs connects a client whose requests carry the token of a user.
func connectAs(t *testing.T, user string, o server.Options, add func(*mcp.Server, *mcpc.Adapter), completes func(context.Context)) *mcp.ClientSession {
	t.Helper()
	srv := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(ctx context.Context, _ *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			completes(ctx)
			return &mcp.CompleteResult{}, nil
		}})
	es, err := server.New(srv, o)
	if err != nil {
		t.Fatal(err)
	}
	a, err := mcpc.New(es, mcpc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { es.Shutdown(context.Background()) })
	add(srv, a)
	token := &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: user}}
	srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch r := req.(type) {
			case *mcp.CallToolRequest:
				r.Extra = token
			case *mcp.GetPromptRequest:
				r.Extra = token
			case *mcp.ReadResourceRequest:
				r.Extra = token
			case *mcp.CompleteRequest:
				r.Extra = token
			}
			return next(ctx, method, req)
		}
	})
	ours, theirs := mcp.NewInMemoryTransports()
	served, err := srv.Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close(); served.Wait() })
	return session
}
