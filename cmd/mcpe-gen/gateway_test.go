package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
)

const (
	emitToken   = "s3cret-of-the-server"
	gatewayNote = `{"id": "1", "author": {"name": "ada"}, "text": "hello", "addedAt": "2026-01-02T03:04:05Z"}`
)

// newUpstream starts an MCP server that refuses the requests that refuses names with 401.
func newUpstream(t *testing.T, refuses func(r *http.Request, method string) bool) (url string) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "upstream", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var call struct{ Method string }
		_ = json.Unmarshal(body, &call) // a GET has none
		if refuses(r, call.Method) {
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return web.URL + "/mcp"
}

// anonymous says whether a request has no token that is known.
func anonymous(r *http.Request, _ string) bool {
	return r.Method != http.MethodHead && !slices.Contains([]string{"Bearer s3cret", "Bearer s3cret-of-ada"}, r.Header.Get("Authorization"))
}

func anybody(*http.Request, string) bool { return false }

// gateways are combinations in front of MCP servers that authenticate their callers or do not.
func gateways(t *testing.T) []combination {
	open, closed := newUpstream(t, anybody), newUpstream(t, anonymous)
	return []combination{
		{closed, "http", "memory", "", false, false, "none"},
		{open, "http", "sqlite", "none", false, true, "prometheus"},
		{closed, "http", "sqlite", "bearer", true, true, "otlp"},
		{open, "http", "postgres", "oauth", true, false, "none"},
	}
}

// initGateway runs init --beside, and returns the directory and what it printed.
func initGateway(t *testing.T, url string, flags ...string) (dir, printed string, code int) {
	t.Helper()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "demo")
	var out bytes.Buffer
	code = run(append([]string{"init", dir, "--replace", checkout, "--beside", url}, flags...), &out, &out, cli.VersionOf(nil))
	return dir, out.String(), code
}

// init asks the MCP server once, and the gateway knows its callers accordingly: it never lets everybody in unless the
// MCP server does.
func TestGatewayCallers(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	absent := "http://" + gone.Addr().String() + "/mcp"
	gone.Close()
	open, closed := newUpstream(t, anybody), newUpstream(t, anonymous)
	ofTools := newUpstream(t, func(r *http.Request, method string) bool { return method == "tools/list" && anonymous(r, method) })
	for name, c := range map[string]struct {
		url              string
		flags            []string
		printed, gateway string
		asked            bool // principal is there
	}{
		"open":        {open, nil, "answers requests without a token, so nobody is authenticated", "Nobody is authenticated", false},
		"closed":      {closed, nil, "did not accept a request without a token (", "The MCP server decides who may call", true},
		"of tools":    {ofTools, nil, "did not accept a request without a token (", "Ask: overlay.AskToolsList", true},
		"wrong path":  {closed + "s", nil, "Not Found", "The MCP server decides who may call", true},
		"absent":      {absent, nil, "did not answer (", "The MCP server decides who may call", true},
		"with bearer": {open, []string{"--auth", "bearer"}, "asks for an access token (--auth bearer)", "handler = authenticate(handler)", false},
		"with OAuth":  {closed, []string{"--auth", "oauth", "--webhooks"}, "asks for an access token (--auth oauth)", "handler = authenticate(handler)", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, printed, code := initGateway(t, c.url, c.flags...)
			if code != cli.OK || !strings.Contains(printed, "\nCallers: the MCP server at "+c.url+" ") || !strings.Contains(printed, c.printed) {
				t.Errorf("exit code %d\n%s", code, printed)
			}
			gateway, main := readText(t, filepath.Join(dir, "gateway.go")), readText(t, filepath.Join(dir, "main.go"))
			if !strings.Contains(gateway, c.gateway) || strings.Contains(gateway, "Nobody is authenticated") != (name == "open") {
				t.Errorf("gateway.go is\n%s", gateway)
			}
			if strings.Contains(main, "options.Principal = principal") != c.asked || strings.Contains(gateway, "func principal(") != c.asked {
				t.Errorf("the principal is there: %v", !c.asked)
			}
		})
	}
}

// An MCP server that never answers does not keep init waiting.
func TestGatewayTimeout(t *testing.T) {
	url := newUpstream(t, func(r *http.Request, _ string) bool {
		<-r.Context().Done()
		return true
	})
	began := time.Now()
	_, printed, code := initGateway(t, url)
	if took := time.Since(began); code != cli.OK || !strings.Contains(printed, "did not answer (") || took > 4*upstreamTimeout {
		t.Errorf("exit code %d after %v\n%s", code, took, printed)
	}
}

func TestGatewayRefuses(t *testing.T) {
	for want, flags := range map[string][]string{
		"--transport is stdio":      {"--transport", "stdio"},
		"--source is check":         {"--source", "check"},
		"--from":                    {"--from", "github"},
		"add --auth bearer":         {"--webhooks"},
		"without a user or a query": {"--beside", "http://user:password@127.0.0.1/mcp"},
		"must be an http or https":  {"--beside", ""},
		"outside of /events/":       {"--beside", "http://127.0.0.1/events/mcp"},
	} {
		if _, printed, code := initGateway(t, "http://127.0.0.1:1/mcp", flags...); code != cli.Usage || !strings.Contains(printed, want) {
			t.Errorf("%q: exit code %d\n%s", flags, code, printed)
		}
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"go.mod": "module example.com/mine\n\ngo 1.26\n"})
	var out bytes.Buffer
	if code := run([]string{"init", dir, "--beside", "http://127.0.0.1:1/mcp"}, &out, &out, cli.VersionOf(nil)); code != cli.Usage || !strings.Contains(out.String(), "another directory") {
		t.Errorf("in a module: exit code %d\n%s", code, &out)
	}
}

// runFetch emits with the TypeScript that README.md shows.
func runFetch(t *testing.T, readme string) {
	t.Helper()
	_, code, _ := strings.Cut(readme, "\n```ts\n")
	code, _, ok := strings.Cut(code, "```\n")
	if !ok {
		t.Fatal("README.md has no TypeScript")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("MCPE_TEST_PEERS_REQUIRED") != "" {
			t.Fatal(err)
		}
		t.Log("NOT RUN: the TypeScript of README.md, which needs Node")
		return
	}
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", code)
	cmd.Env = append(os.Environ(), "EMIT_TOKEN=CHANGE-THIS-LONG-SECRET")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
