package mcpeclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpeclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// A scripted server speaks line for line as the original implementation does: it has no capability
// object, pages its tools, and answers tools with texts.
type scripted struct {
	t       testing.TB
	answers map[string]string // tool → result
	before  []string          // notifications written before the reply of events_subscribe
	plain   string            // JSON-RPC error instead of results

	mu    sync.Mutex
	conn  mcp.Connection // the last one
	calls []string
}

const originalSub = `{"content":[{"type":"text","text":"{\"subscriptionId\":\"sub-1\",\"status\":\"active\"}"}]}`

func newScripted(t testing.TB) (*scripted, *client.Client) {
	t.Helper()
	s := &scripted{t: t, answers: map[string]string{
		wire.MCPEToolSubscribe: originalSub, wire.MCPEToolUnsubscribe: `{"content":[{"type":"text","text":"{\"success\":true}"}]}`,
	}}
	c, err := client.Connect(context.Background(), client.Dial(s.dial), client.Options{ProtocolVersion: wire.RevisionLegacy, MaxMessage: 3 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func (s *scripted) dial(context.Context) (mcp.Transport, error) {
	ct, st := mcp.NewInMemoryTransports()
	conn, err := st.Connect(context.Background())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	go s.serve(conn)
	return ct, nil
}

func (s *scripted) last() mcp.Connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

func (s *scripted) serve(conn mcp.Connection) {
	for {
		m, err := conn.Read(context.Background())
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
		if err := conn.Write(context.Background(), resp); err != nil {
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
	_ = s.last().Write(context.Background(), m)
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

// MCPE-RECV-1, MCPE-NOTE-1, MCPE-CONF-2: items from all forms of notifications, batches as such; what
// comes before the reply is kept.
func TestReceiveOriginalForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newScripted(t)
		defer c.Close()
		s.before = append(append([]string{}, noise...), notifications[0], notifications[4])
		got := told(receive(t, mcpeclient.New(c), mcpeclient.Request{Filter: mcpewire.Filter{EventTypes: []string{"github.*"}}}))
		expect(t, got, "github.push(1)", "batch(github.push(5) github.push(6))")
		for i, line := range notifications {
			s.write(noise[i])
			s.write(line)
		}
		s.write(`{"jsonrpc":"2.0","method":"events/batch","params":{"subscriptionId":"sub-1","events":[]}}`)
		s.write(`{"jsonrpc":"2.0","method":"events/subscription_expired","params":{"subscriptionId":"sub-1","expiredAt":"2025-01-15T10:30:00Z"}}`)
		expect(t, got, "github.push(1)", "github.push(2)", "github.push(3)", "github.push(4)", "batch(github.push(5) github.push(6))", "expired", "end")
		s.mu.Lock()
		defer s.mu.Unlock()
		if want := `events_subscribe{"filter":{"eventTypes":["github.*"]},"delivery":{"channels":["realtime"]}}`; s.calls[0] != want {
			t.Errorf("called %s, want %s", s.calls[0], want)
		}
	})
}

// MCPE-TOOL-3, MCPE-CONF-2: a change is written in the document's form and in the original's, with null
// for what is cleared; an answer without the id is one all the same.
func TestChangeForms(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, change := range map[string]mcpeclient.Change{
		`{"subscriptionId":"sub-1","updates":{}}`:                                  {},
		`{"subscriptionId":"sub-1","updates":{"expiresAt":null},"expiresAt":null}`: {ExpiresAt: events.Null[time.Time]()},
		`{"subscriptionId":"sub-1","updates":{"handler":null,"expiresAt":"2030-01-02T03:04:05Z"},"handler":null,"expiresAt":"2030-01-02T03:04:05Z"}`: {
			Handler: events.Null[mcpewire.Handler](), ExpiresAt: events.Some(at)},
		`{"subscriptionId":"sub-1","updates":{"filter":{},"handler":{"type":"bash","command":"ls"}},"filter":{},"handler":{"type":"bash","command":"ls"}}`: {
			Filter: &mcpewire.Filter{}, Handler: events.Some(mcpewire.Handler{Type: "bash", Command: "ls"})},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, c := newScripted(t)
			defer c.Close()
			s.answers[wire.MCPEToolUpdate] = `{"content":[{"type":"text","text":"{\"success\":true}"}]}`
			changed, err := mcpeclient.New(c).Update(context.Background(), "sub-1", change)
			if err != nil || changed.ID != "sub-1" || changed.SubscriptionID != "sub-1" {
				t.Errorf("%+v, %v", changed, err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if got := strings.TrimPrefix(s.calls[0], wire.MCPEToolUpdate); got != want {
				t.Errorf("called %s, want %s", got, want)
			}
		})
	}
}

// event is a notification for sub-1 with the number n and this many bytes of data beside it.
func event(n, size int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"events/event","params":{"subscriptionId":"sub-1","event":{"id":"e%d","type":"github.push","data":{"n":%d,"pad":"%s"},"metadata":{"timestamp":"2025-01-15T10:30:00Z","priority":"normal"}}}}`,
		n, n, strings.Repeat("x", size))
}

// MCPE-RECV-1: what waits for an application that takes nothing is bounded, by count and by bytes, and a
// gap stands for what is lost; so is what comes before the reply.
func TestReceiveIsBounded(t *testing.T) {
	defer mcpeclient.SetBounds(200, 1<<20, 20, 100<<10)()
	for name, load := range map[string]struct {
		before, events, size int
		least, most          int // are kept
	}{
		"many":        {events: 400, least: 200 + 64, most: 200 + 64 + 2},
		"large":       {events: 120, size: 64 << 10, least: 48 + 15, most: 48 + 16 + 3},
		"one is huge": {events: 1, size: 2 << 20, least: 1, most: 1},
		"early":       {before: 30, least: 20, most: 20},
		"early bytes": {before: 30, size: 10 << 10, least: 9, most: 9},
		"early, huge": {before: 1, size: 200 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := newScripted(t)
				defer c.Close()
				for n := range load.before {
					s.before = append(s.before, event(n, load.size))
				}
				sub := receive(t, mcpeclient.New(c), mcpeclient.Request{})
				synctest.Wait()
				for n := range load.events {
					s.write(event(n, load.size))
					synctest.Wait()
				}
				got, took, gaps := told(sub), 0, 0
				synctest.Wait()
				for len(got) > 0 {
					switch w := <-got; w {
					case "gap":
						gaps++
					case fmt.Sprintf("github.push(%d)", took):
						took++
					default:
						t.Fatalf("got %q after %d events", w, took)
					}
				}
				lost := took < load.events+load.before
				if took < load.least || took > load.most || gaps != map[bool]int{true: 1}[lost] {
					t.Errorf("%d events, %d gaps; want %d to %d", took, gaps, load.least, load.most)
				}
				s.write(event(took, 0))
				expect(t, got, fmt.Sprintf("github.push(%d)", took))
			})
		})
	}
}

// MCPE-RECV-2, MCPE-CONF-2: after a loss of the session the subscription is found in the original's list,
// which may be a bare one, or made anew, or it has expired; a gap stands between.
func TestReceiveOriginalReconnects(t *testing.T) {
	const anew, expired = 2, 0
	for list, outcome := range map[string]int{
		`[{\"subscriptionId\":\"sub-0\"},{\"subscriptionId\":\"sub-1\"}]`: 1,
		`{\"subscriptions\":[{\"id\":\"sub-1\",\"status\":\"active\"}]}`:  1,
		`{\"subscriptions\":[]}`: anew,
		`{\"subscriptions\":[{\"id\":\"sub-0\",\"status\":\"active\"}],\"total\":1}`: anew,
		`{\"subscriptions\":[{\"id\":\"sub-1\",\"status\":\"expired\"}]}`:            expired,
	} {
		synctest.Test(t, func(t *testing.T) {
			s, c := newScripted(t)
			defer c.Close()
			s.answers[wire.MCPEToolList] = `{"content":[{"type":"text","text":"` + list + `"}]}`
			got := told(receive(t, mcpeclient.New(c), mcpeclient.Request{}))
			s.write(notifications[0])
			expect(t, got, "github.push(1)")
			s.last().Close()
			expect(t, got, "gap")
			if outcome == expired {
				expect(t, got, "expired", "end")
				outcome = 1
			} else {
				s.write(notifications[4])
				expect(t, got, "batch(github.push(5) github.push(6))")
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			subscribed := 0
			for _, call := range s.calls {
				if strings.HasPrefix(call, wire.MCPEToolSubscribe) {
					subscribed++
				}
			}
			if subscribed != outcome {
				t.Errorf("%s: subscribed %d times, want %d", list, subscribed, outcome)
			}
		})
	}
}
