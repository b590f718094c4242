package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

func readTool(event string) readtool.Tool {
	return readtool.New(incidentType(event).Info, "read_"+event, "cursor", "maxEvents")
}

// A read tool of a type that is not registered would be listed and fail for ever.
func TestReadToolsNeedTheirTypes(t *testing.T) {
	s := newServer(t, Options{})
	register(t, s, "a", Hooks[filterArgs, incident]{})
	err := s.AddReadTools(readTool("a"), readTool("b"), readTool("c"), readTool("b"))
	if err == nil || !strings.HasSuffix(err.Error(), "register the event types first; not registered: b, c") {
		t.Fatal(err)
	}
	c := connect(t, s)
	c.initialize()
	if res := c.send("tools/list", `{}`); res.Error == nil && strings.Contains(string(res.Result), "read_") {
		t.Errorf("a part was added: %s", res.Result)
	}
}

// LIST-4: what Visible hides from a principal is hidden in tools/list too, in both eras, and its
// read tool answers NotFound. A page that depends on the caller is not for shared caches.
func TestReadToolsVisibility(t *testing.T) {
	principal := "ann"
	s := newServer(t, Options{
		Principal: func(context.Context, *mcp.RequestExtra) string { return principal },
		Visible:   func(_ context.Context, who, event string) bool { return who == "ann" || event != "secret" },
	})
	register(t, s, "open", Hooks[filterArgs, incident]{})
	register(t, s, "secret", Hooks[filterArgs, incident]{})
	if err := s.AddReadTools(readTool("open"), readTool("secret")); err != nil {
		t.Fatal(err)
	}
	s.mcp.AddTool(&mcp.Tool{Name: "other", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	legacy, stateless := connect(t, s), connect(t, s)
	legacy.initialize()
	tools := func(c *rawSession, params string) (names []string, scope string) {
		t.Helper()
		res := c.send("tools/list", params)
		var r struct {
			Tools      []struct{ Name string }
			CacheScope string
		}
		if res.Error != nil || json.Unmarshal(res.Result, &r) != nil {
			t.Fatalf("%v %s", res.Error, res.Result)
		}
		for _, tool := range r.Tools {
			names = append(names, tool.Name)
		}
		slices.Sort(names)
		return names, r.CacheScope
	}
	expect := func(when string, want ...string) {
		t.Helper()
		names, _ := tools(legacy, `{}`)
		wantStrings(t, when, names, want...)
		names, scope := tools(stateless, `{`+statelessMeta+`}`)
		wantStrings(t, when, names, want...)
		if scope != "private" {
			t.Errorf("cacheScope is %q", scope)
		}
	}
	expect("ann", "other", "read_open", "read_secret")
	principal = "bob"
	expect("bob", "other", "read_open")
	res := legacy.send("tools/call", `{"name":"read_secret","arguments":{}}`)
	if got := string(res.Result); !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "NotFound") {
		t.Errorf("%s %v", got, res.Error)
	}
	principal = "ann"
	if err := s.Remove("secret"); err != nil {
		t.Fatal(err)
	}
	expect("removed", "other", "read_open")
}

// Without Visible the list of tools is everybody's.
func TestReadToolsCacheable(t *testing.T) {
	s := newServer(t, Options{})
	register(t, s, "open", Hooks[filterArgs, incident]{})
	if err := s.AddReadTools(readTool("open")); err != nil {
		t.Fatal(err)
	}
	if res := connect(t, s).send("tools/list", `{`+statelessMeta+`}`); !strings.Contains(string(res.Result), `"cacheScope":"public"`) {
		t.Errorf("%s", res.Result)
	}
}

// On servers that exist for one request, the tools have the principal, visibility and results of the server's own.
func TestAddToolsTo(t *testing.T) {
	s := newServer(t, Options{
		Principal: func(_ context.Context, extra *mcp.RequestExtra) string { return extra.Header.Get("X-User") },
		Visible:   func(_ context.Context, who, event string) bool { return who == "ann" || event != "secret" },
	})
	open := register(t, s, "open", Hooks[filterArgs, incident]{})
	register(t, s, "secret", Hooks[filterArgs, incident]{})
	if err := errors.Join(s.AddReadTools(readTool("open"), readTool("secret")), s.AddWaitTool()); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		srv := mcp.NewServer(&mcp.Implementation{Name: "request", Version: "1"}, nil)
		srv.AddTool(&mcp.Tool{Name: "other", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
		s.AddToolsTo(srv)
		return srv
	}, &mcp.StreamableHTTPOptions{Stateless: true}))
	defer web.Close()
	for who, want := range map[string][]string{"ann": {"events_wait", "other", "read_open", "read_secret"}, "bob": {"events_wait", "other", "read_open"}} {
		c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
		ss, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: &http.Client{Transport: asUser(who)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ss.Close()
		page, err := ss.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range page.Tools {
			if names = append(names, tool.Name); tool.Name == WaitTool && strings.Contains(tool.Description, "secret") != (who == "ann") {
				t.Errorf("%s: %s", who, tool.Description)
			}
		}
		slices.Sort(names)
		wantStrings(t, who, names, want...)
		call := func(name string, arguments map[string]any) *mcp.CallToolResult {
			t.Helper()
			res, err := ss.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		if res := call("read_secret", nil); res.IsError != (who == "bob") {
			t.Errorf("%s: %+v", who, res)
		}
		begun := call("read_open", nil).StructuredContent.(map[string]any)
		if err := open.Emit(t.Context(), incident{}); err != nil {
			t.Fatal(err)
		}
		if got := call("read_open", map[string]any{"cursor": begun["cursor"]}).StructuredContent.(map[string]any)["events"]; len(got.([]any)) != 1 {
			t.Errorf("%s: %v", who, got)
		}
	}
}

// asUser sends requests as a user.
type asUser string

func (u asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("X-User", string(u))
	return http.DefaultTransport.RoundTrip(r)
}

// HOST-1: the tools take arguments as agent hosts send them, also those of the event type. The methods
// of the protocol do not (TestArgumentsAreBounded).
func TestToolArguments(t *testing.T) {
	s := newServer(t, Options{})
	register(t, s, "e", Hooks[filterArgs, incident]{})
	if err := s.AddReadTools(readTool("e")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tool, args, problem string }{
		{"read_e", `{"minLevel":"3","any":"[\"x\"]","redact":"true","severity":null,"maxEvents":"1","waitSeconds":"0","quietSeconds":null}`, ""},
		{"read_e", `{"minLevel":"three"}`, `/minLevel`},
		{"read_e", `{"any":[null]}`, `/any/0`},
		{"read_e", `{"other":null}`, `/other`},
		{WaitTool, `{"events":"[{\"name\":\"e\"}]","waitSeconds":"0","maxEvents":null}`, ""},
		{WaitTool, `{"events":[{"name":"e","arguments":"{\"minLevel\":3}"}],"waitSeconds":0}`, ""},
		{WaitTool, `{"events":[{"name":"e","arguments":{"minLevel":"3","any":"[]","severity":null}}],"waitSeconds":0}`, ""},
		{WaitTool, `"{\"events\":[{\"name\":\"e\"}],\"waitSeconds\":0}"`, ""},
		{WaitTool, `{"events":[{"name":"e","arguments":{"minLevel":"[]"}}],"waitSeconds":0}`, `/minLevel`},
		{WaitTool, `{"events":"e"}`, `\"/events\",\"message\":\"must be an array`},
		{WaitTool, `{"events":[{"name":"e"}],"waitSeconds":"56"}`, `is 56, must be an integer`},
		{WaitTool, `{"events":null}`, `\"/events\",\"message\":\"must be an array`},
	} {
		got := string(tool(t, s, c.tool, c.args).Result)
		if isError := strings.Contains(got, `"isError":true`); isError != (c.problem != "") || !strings.Contains(got, c.problem) {
			t.Errorf("%s %s: %s", c.tool, c.args, got)
		}
	}
}
