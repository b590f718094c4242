package mcpc_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/mcpcclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// serve serves the rig over HTTP; a caller is who its bearer token names.
func (g *rig) serve() (url string) {
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	inner := transport.NewHandler(g.es, transport.HandlerOptions{})
	guarded := auth.RequireBearerToken(verify, nil)(inner)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			inner.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	}))
	g.stops = append(g.stops, h.Close)
	return h.URL
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b != "" {
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

func overHTTP(url, user string) *mcp.StreamableClientTransport {
	return client.HTTP(url, &http.Client{Transport: bearer(user)})
}

func (g *rig) connect(url, user, version string, o mcpcclient.Options) *mcpcclient.Client {
	g.t.Helper()
	o.Session = &mcp.ClientSessionOptions{ProtocolVersion: version}
	o.Logger = quiet
	c, err := mcpcclient.Connect(g.t.Context(), mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil), overHTTP(url, user), o)
	if err != nil {
		g.t.Fatal(err)
	}
	g.stops = append([]func(){func() { c.Shutdown(context.Background()) }}, g.stops...)
	return c
}

// MCPC-WIRE-2: over HTTP the messages are the content of the result, with the typed result beside
// them, and occurrences of mcpc.task that a cursor replays, to the task's principal alone.
func TestCollected(t *testing.T) {
	for _, version := range eras {
		t.Run(version, func(t *testing.T) {
			var way mcpc.Way
			g := newRig(t, serverQuiet(), mcpc.Options{}, func(ctx context.Context, a arguments, tk *mcpc.Task[update]) (result, error) {
				way = tk.Way()
				if a.Fail != "" {
					return result{}, mcpc.Fail(a.Fail, nil)
				}
				return counts(ctx, a, tk)
			})
			defer g.stop()
			url := g.serve()
			beginning := port.Of(g.es).Head(task.Event.Name)
			ann := g.connect(url, "ann", version, mcpcclient.Options{SessionID: "s"})
			res, id, err := ann.CallTool(t.Context(), &mcp.CallToolParams{Name: "count", Arguments: arguments{Steps: 2}}, "")
			if err != nil {
				t.Fatal(err)
			}
			list, err := ann.Session().ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			listed, _ := json.Marshal(list)
			schema := outputOf(t, string(listed), "count")
			var got []string
			for _, b := range res.Content {
				m, ok, err := task.Parse(b.(*mcp.TextContent).Text)
				if !ok || err != nil || m.TaskID != id || m.SessionID != "s" {
					t.Fatalf("%+v, %v", b, err)
				}
				got = append(got, m.Event+" "+string(m.Result))
			}
			equal(t, "collected", got, `created "Started count."`, `update {"step":1}`, `update {"step":2}`, `complete {"total":2}`)
			if b, _ := json.Marshal(res.StructuredContent); string(b) != `{"total":2}` || way != mcpc.Collected || schema.Validate(b) != nil {
				t.Errorf("structured %s by %v", b, way)
			}
			if res, _, err := ann.CallTool(t.Context(), &mcp.CallToolParams{Name: "count", Arguments: arguments{Fail: "No."}}, "t2"); err != nil || !res.IsError || len(res.Content) != 2 {
				t.Errorf("failed: %+v, %v", res, err)
			}
			for user, want := range map[string]int{"ann": 4, "bob": 0} {
				if got := occurrences(t, url, user, beginning, task.Arguments{TaskID: id}, want); len(got) != want {
					t.Errorf("%s reads %v", user, got)
				}
			}
			if got := occurrences(t, url, "ann", beginning, task.Arguments{}, 6); len(got) != 6 || slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "owner") }) {
				t.Errorf("all of ann's: %v", got)
			}
			if got := occurrences(t, url, "", beginning, task.Arguments{TaskID: id}, 0); len(got) != 0 {
				t.Errorf("nobody reads %v", got)
			}
		})
	}
}

// occurrences reads mcpc.task from the cursor on, until want have come or nothing comes any more.
func occurrences(t *testing.T, url, user, cursor string, args task.Arguments, want int) (got []string) {
	t.Helper()
	c, err := client.Connect(t.Context(), overHTTP(url, user), client.Options{Logger: quiet, PollFloor: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	wait := 10 * time.Second
	if want == 0 {
		wait = 200 * time.Millisecond
	}
	sub, err := client.Subscribe(t.Context(), c, task.Event, args, client.WithCursor(cursor))
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	over := time.AfterFunc(wait, func() { sub.Close() }) // connecting may take long
	defer over.Stop()
	for ev, err := range sub.Events() {
		if client.Final(err) {
			break
		}
		if err != nil {
			continue
		}
		got = append(got, string(ev.Raw))
		if want > 0 && len(got) == want {
			break
		}
	}
	return got
}

// Callers without a session leave nothing behind, and nobody is taken for somebody else.
func TestStatelessLeavesNothing(t *testing.T) {
	g := newRig(t, serverQuiet(), mcpc.Options{}, nil)
	defer g.stop()
	url := g.serve()
	for _, user := range []string{"ann", ""} {
		c := g.connect(url, user, modern, mcpcclient.Options{})
		if _, _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "count", Arguments: arguments{Steps: 1}}, "t"); err != nil {
			t.Fatal(err)
		}
		// Its probe is true of no later call.
		res, err := c.Session().CallTool(t.Context(), &mcp.CallToolParams{Name: "count", Arguments: arguments{Steps: 1}})
		if b, _ := json.Marshal(res); err != nil || strings.Contains(string(b), "mcpc") {
			t.Errorf("%q: %s, %v", user, b, err)
		}
	}
	if n := mcpc.Peers(g.a); n != 0 {
		t.Errorf("%d peers are left", n)
	}
}
