package mcpeclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpeclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// A scripted server speaks line for line as the original implementation does: it has no capability
// object, pages its tools, and answers tools with texts.
type scripted struct {
	t       testing.TB
	conn    mcp.Connection
	answers map[string]string // tool → result
	before  []string          // notifications written before the reply of events_subscribe
	plain   string            // JSON-RPC error instead of results

	mu    sync.Mutex
	calls []string
}

const originalSub = `{"content":[{"type":"text","text":"{\"subscriptionId\":\"sub-1\",\"status\":\"active\"}"}]}`

func newScripted(t testing.TB) (*scripted, *client.Client) {
	t.Helper()
	s := &scripted{t: t, answers: map[string]string{
		wire.MCPEToolSubscribe: originalSub, wire.MCPEToolUnsubscribe: `{"content":[{"type":"text","text":"{\"success\":true}"}]}`,
	}}
	ct, st := mcp.NewInMemoryTransports()
	var err error
	if s.conn, err = st.Connect(context.Background()); err != nil {
		t.Fatal(err)
	}
	go s.serve()
	c, err := client.Connect(context.Background(), ct, client.Options{ProtocolVersion: wire.RevisionLegacy})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func (s *scripted) serve() {
	for {
		m, err := s.conn.Read(context.Background())
		if err != nil {
			return
		}
		req, ok := m.(*jsonrpc.Request)
		if !ok || !req.IsCall() {
			continue
		}
		resp := &jsonrpc.Response{ID: req.ID, Result: json.RawMessage(`{}`)}
		switch req.Method {
		case "initialize":
			resp.Result = json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mcpe-server","version":"1.0.0"}}`)
		case "tools/list":
			resp.Result = json.RawMessage(`{"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"nextCursor":"2"}`)
			if strings.Contains(string(req.Params), `"cursor":"2"`) {
				resp.Result = json.RawMessage(`{"tools":[{"name":"events_subscribe","inputSchema":{"type":"object"}}]}`)
			}
		case "tools/call":
			var p struct {
				Name      string
				Arguments json.RawMessage
			}
			_ = json.Unmarshal(req.Params, &p)
			s.mu.Lock()
			s.calls = append(s.calls, p.Name+string(p.Arguments))
			s.mu.Unlock()
			if p.Name == wire.MCPEToolSubscribe {
				for _, n := range s.before {
					s.write(n)
				}
			}
			resp.Result = json.RawMessage(s.answers[p.Name])
			if s.plain != "" {
				resp = &jsonrpc.Response{ID: req.ID, Error: &jsonrpc.Error{Code: -32602, Message: s.plain}}
			}
		}
		if err := s.conn.Write(context.Background(), resp); err != nil {
			return
		}
	}
}

func (s *scripted) write(line string) {
	m, err := jsonrpc.DecodeMessage([]byte(line))
	if err != nil {
		s.t.Errorf("%s: %v", line, err)
		return
	}
	_ = s.conn.Write(context.Background(), m)
}

// The forms of the original implementation and of the documents, each carrying the number n.
var notifications = []string{
	`{"jsonrpc":"2.0","method":"events/event","params":{"subscriptionId":"sub-1","event":{"id":"e1","type":"github.push","data":{"n":1},"metadata":{"timestamp":"2025-01-15T10:30:00.000Z","priority":"normal","sourceEventId":"s1"}}}}`,
	`{"jsonrpc":"2.0","method":"notifications/message","params":{"method":"events/event","params":{"subscriptionId":"sub-1","event":{"id":"e2","type":"github.push","data":{"n":2},"metadata":{"timestamp":"2025-01-15T10:30:00Z","priority":"normal"}}}}}`,
	`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"mcpe","data":{"method":"events/event","params":{"subscriptionId":"sub-1","event":{"id":"e3","type":"github.push","data":{"n":3},"metadata":{"timestamp":"2025-01-15T10:30:00Z","priority":"low"}}}}}}`,
	`{"jsonrpc":"2.0","method":"events/event","params":{"id":"sub-1","event":{"id":"e4","type":"github.push","data":{"n":4},"metadata":{"timestamp":"2025-01-15T10:30:00Z","priority":"normal"}}}}`,
	`{"jsonrpc":"2.0","method":"events/batch","params":{"subscriptionId":"sub-1","events":[{"id":"e5","type":"github.push","data":{"n":5},"metadata":{"timestamp":"2025-01-15T10:30:00Z","priority":"normal"}},{"id":"e6","type":"github.push","data":{"n":6},"metadata":{"timestamp":"2025-01-15T10:30:00Z","priority":"normal"}}]}}`,
}

// noise is what has to be passed over.
var noise = []string{
	`{"jsonrpc":"2.0","method":"events/event","params":{"subscriptionId":"another","event":{"id":"x","type":"github.push","data":{"n":99},"metadata":{"timestamp":"2025-01-15T10:30:00Z","priority":"normal"}}}}`,
	`{"jsonrpc":"2.0","method":"events/event","params":{"subscriptionId":"sub-1"}}`,
	`{"jsonrpc":"2.0","method":"events/event","params":{"subscriptionId":7}}`,
	`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a plain line"}}`,
	`{"jsonrpc":"2.0","method":"events/strange","params":{}}`,
}

// MCPE-CONF-2, MCPE-NOTE-1, MCPE-TOOL-2: bare and enveloped notifications, `id` or `subscriptionId`,
// results as texts, detection over all pages of the tools without any capability object.
func TestOriginalForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newScripted(t)
		defer c.Close()
		m := mcpeclient.New(c)
		if caps, err := m.Capabilities(context.Background()); caps != nil || err != nil {
			t.Errorf("capabilities %+v, %v", caps, err)
		}
		sub, err := client.Subscribe(context.Background(), c, pushed, arguments{}, m.Via(mcpeclient.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		got := items(sub)
		for i, line := range notifications {
			s.write(noise[i])
			s.write(line)
		}
		for n := 1; n <= 6; n++ {
			if i := next(t, got); i != (item{n: n}) {
				t.Fatalf("got %+v, want %d", i, n)
			}
		}
		s.write(`{"jsonrpc":"2.0","method":"events/subscription_expired","params":{"subscriptionId":"sub-1","expiredAt":"2025-01-15T10:30:00Z"}}`)
		if i := next(t, got); !errors.Is(i.err, mcpeclient.ErrExpired) {
			t.Errorf("got %+v", i)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if want := `events_subscribe{"filter":{"eventTypes":["github.push"]},"delivery":{"channels":["realtime"]}}`; s.calls[0] != want {
			t.Errorf("called %s, want %s", s.calls[0], want)
		}
	})
}

// MCPE-NOTE-3: what comes before the reply that tells the id is kept.
func TestNotificationsBeforeTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newScripted(t)
		defer c.Close()
		s.before = append(append([]string{}, noise...), notifications[:2]...)
		sub, err := client.Subscribe(context.Background(), c, pushed, arguments{}, mcpeclient.New(c).Via(mcpeclient.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		got := items(sub)
		for n := 1; n <= 2; n++ {
			if i := next(t, got); i != (item{n: n}) {
				t.Fatalf("got %+v, want %d", i, n)
			}
		}
	})
}

// MCPE-TOOL-4: errors in every form that servers give them.
func TestErrorForms(t *testing.T) {
	for form, want := range map[string]mcpeclient.Error{
		`{"isError":true,"content":[{"type":"text","text":"Subscription not found: x"}]}`:                                                                           {Message: "Subscription not found: x"},
		`{"isError":true,"content":[{"type":"text","text":"no"}],"structuredContent":{"error":{"code":-32002,"name":"SubscriptionLimitReached","message":"full"}}}`: {Code: -32002, Name: "SubscriptionLimitReached", Message: "full"},
		`{"isError":true,"content":[{"type":"text","text":"{\"error\":\"Maximum subscriptions reached\"}"}]}`:                                                       {Message: "Maximum subscriptions reached"},
		`{"content":[{"type":"text","text":"{\"success\":false,\"message\":\"unknown\"}"}]}`:                                                                        {Message: "unknown"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, c := newScripted(t)
			defer c.Close()
			s.answers[wire.MCPEToolUnsubscribe] = form
			var got *mcpeclient.Error
			if err := mcpeclient.New(c).Unsubscribe(context.Background(), "x"); !errors.As(err, &got) || *got != want {
				t.Errorf("%s: %v, want %v", form, err, &want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s, c := newScripted(t)
		defer c.Close()
		s.plain = "invalid filter"
		var got *mcpeclient.Error
		if err := mcpeclient.New(c).Pause(context.Background(), "x"); !errors.As(err, &got) || got.Code != mcpewire.CodeInvalidParams || got.Message != "invalid filter" {
			t.Errorf("%v", err)
		}
	})
}

// What comes for ids that nobody ever asks for is bounded.
func TestUnknownIDsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newScripted(t)
		defer c.Close()
		m := mcpeclient.New(c)
		for i := range 5000 {
			s.write(strings.ReplaceAll(noise[0], "another", "another"+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676))))
		}
		synctest.Wait()
		if n := m.Unknown(); n > 64 {
			t.Errorf("%d unknown ids are kept", n)
		}
	})
}
