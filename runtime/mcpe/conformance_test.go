package mcpe_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
)

// MCPE-CONF-1: section 12.1 of the specification, a test per line. Section 12.2 is in
// runtime/mcpe/mcpeclient.
func TestServerConformance(t *testing.T) {
	for name, f := range map[string]func(t *testing.T, g *rig){
		"12.1 MUST 1: all six subscription tools are registered": func(t *testing.T, g *rig) {
			all := g.dial(legacy).tools()
			for _, name := range toolNames {
				if all[name] == nil {
					t.Errorf("no tool %s", name)
				}
			}
			if len(all) != len(toolNames) {
				t.Errorf("%d tools", len(all))
			}
		},
		"12.1 MUST 2: events/event": func(t *testing.T, g *rig) {
			p := g.dial(legacy)
			p.subscribe(`{"filter":{"eventTypes":["github.*"]},"delivery":{"channels":["realtime"]}}`)
			g.emit("github.push", 1)
			p.want("event(1)")
		},
		"12.1 MUST 3: capabilities are advertised during initialization": func(t *testing.T, g *rig) {
			for _, version := range []string{legacy, modern} {
				if c := g.capability(version); !strings.Contains(c, `"protocolVersion":"2025-01-01","protocolName":"mcpe"`) {
					t.Errorf("%s: %s", version, c)
				}
			}
		},
		"12.1 MUST 4: subscription limits are enforced": func(t *testing.T, g *rig) {
			p := g.dial(legacy)
			for range 100 {
				p.subscribe(`{}`)
			}
			p.fails("events_subscribe", `{}`, -32002)
		},
		"12.1 MUST 5: filter and delivery parameters are validated": func(t *testing.T, g *rig) {
			p := g.dial(legacy)
			p.fails("events_subscribe", `{"filter":{"priority":["soon"]}}`, -32602, "filter.priority")
			p.fails("events_subscribe", `{"delivery":{"channels":["pigeon"]}}`, -32602, "delivery.channels")
		},
		"12.1 SHOULD 1: events/batch": func(t *testing.T, g *rig) {
			p := g.dial(legacy)
			p.subscribe(`{"delivery":` + cron("@hourly", "") + `}`)
			g.emit("github.push", 1, 2)
			sleep(time.Hour)
			p.want("batch(1,2)")
		},
		"12.1 SHOULD 2: events/subscription_expired": func(t *testing.T, g *rig) {
			p := g.dial(legacy)
			p.subscribe(`{"expiresAt":"2000-01-01T00:00:05Z"}`)
			sleep(5 * time.Second)
			p.want("subscription_expired()")
		},
		"12.1 SHOULD 3: the realtime channel": func(t *testing.T, g *rig) {
			if c := g.capability(legacy); !strings.Contains(c, `"supportedChannels":["realtime","cron","scheduled"]`) {
				t.Error(c)
			}
		},
		"12.1 SHOULD 4: event type wildcards": func(t *testing.T, g *rig) {
			p := g.dial(legacy)
			p.subscribe(`{"filter":{"eventTypes":["github.issue.*"]}}`)
			g.emit("github.push", 1)
			g.emit("github.issue.opened", 2)
			p.want("event(2)")
		},
		"12.1 SHOULD 5: pause and resume": func(t *testing.T, g *rig) {
			p := g.dial(legacy)
			s := p.subscribe(`{}`)
			p.ok("events_pause", `{"subscriptionId":"`+s.ID+`"}`, nil)
			g.emit("github.push", 1)
			p.want("")
			p.ok("events_resume", `{"subscriptionId":"`+s.ID+`"}`, nil)
			g.emit("github.push", 2)
			p.want("event(2)")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, mcpe.Options{}, func(g *rig) { f(t, g) })
		})
	}
}

// MCPE-CONF-2: a plain client of the SDK, which knows nothing of MCPE, uses the tools, and its
// session survives the notifications that it does not know. Its check of results against the
// outputSchema accepts errors, too.
func TestPlainClient(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		ct, st := mcp.NewInMemoryTransports()
		g.ran.Go(func() { serve(context.Background(), g, st) })
		c := mcp.NewClient(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
		cs, err := c.Connect(context.Background(), ct, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
		if err != nil {
			t.Fatal(err)
		}
		defer cs.Close()
		for _, args := range []any{map[string]any{}, map[string]any{"delivery": map[string]any{"channels": []string{"x"}}}} {
			res, err := cs.CallTool(context.Background(), &mcp.CallToolParams{Name: "events_subscribe", Arguments: args})
			if err != nil || res.StructuredContent == nil {
				t.Fatalf("%+v, %v", res, err)
			}
		}
		g.emit("github.push", 1)
		sleep(time.Second)
		res, err := cs.CallTool(context.Background(), &mcp.CallToolParams{Name: "events_list", Arguments: map[string]any{}})
		if err != nil || res.IsError {
			t.Fatalf("%+v, %v", res, err)
		}
		b, _ := json.Marshal(res.StructuredContent)
		if !strings.Contains(string(b), `"status":"active"`) || g.a.Stats().Notified != 1 {
			t.Errorf("%s, %+v", b, g.a.Stats())
		}
	})
}
