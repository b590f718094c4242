package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

var eras = []string{wire.RevisionLegacy, wire.RevisionStateless}

// CONV-1, CONV-2, CONV-3: a declared server is shown the message and its typed answer is merged.
func TestUserMessage(t *testing.T) {
	type facts struct {
		Memories []Memory `json:"memories,omitempty"`
		Topic    string   `json:"topic"`
	}
	for _, version := range eras {
		t.Run(version, func(t *testing.T) {
			var seen Message
			session, stop := connect(t, Handler[facts]{OnUserMessage: func(_ context.Context, m Message) (Answer[facts], error) {
				seen = m
				return Answer[facts]{Context: "You spoke of databases.", Structured: &facts{Topic: "schema", Memories: []Memory{
					{Content: "low", Relevance: 0.2}, {Content: "uses Postgres", Relevance: 0.9, Source: "notes"}}}}, nil
			}}, version, nil)
			defer stop()
			h := NewHub(HubOptions{Consents: approving(t, "memory"), Timeout: 5 * time.Second, Logger: quiet})
			if err := h.Add("memory", session, ServerOptions{}); err != nil {
				t.Fatal(err)
			}
			in, err := h.UserMessage(t.Context(), Message{MessageID: "m1", Content: "which database?", RecentHistory: []Turn{{User, "hi"}}})
			if err != nil {
				t.Fatal(err)
			}
			want := preamble + "<server-context server=\"memory\">\nYou spoke of databases.\n- (0.90, notes) uses Postgres\n- (0.20) low\n</server-context>\n"
			if in.Text != want {
				t.Errorf("injected\n%s\nwant\n%s", in.Text, want)
			}
			if seen.MessageID != "m1" || seen.Content != "which database?" || seen.RecentHistory != nil {
				t.Errorf("the server saw %+v; history needs a consent of its own (CONV-5)", seen)
			}
			got, err := Decode[facts](in.Contributions[0])
			if err != nil || got == nil || got.Topic != "schema" {
				t.Errorf("typed structured context %+v, %v", got, err)
			}
		})
	}
}

// CONV-1: both places of the capability, in both eras, and only what is served.
func TestCapability(t *testing.T) {
	for _, version := range eras {
		session, stop := connect(t, says("x"), version, nil)
		c, ok := capabilityOf(session.InitializeResult())
		if !ok || !c.OnUserMessage || c.OnAssistantResponse {
			t.Errorf("%s: %+v, %v", version, c, ok)
		}
		stop()
		plain, stop := connect(t, Handler[Memories]{}, version, nil)
		if err := NewHub(HubOptions{}).Add("plain", plain, ServerOptions{}); !errors.Is(err, ErrNotDeclared) {
			t.Errorf("%s: a server without the capability: %v", version, err)
		}
		stop()
	}
}

// CONV-1: the capability stands at the top level of capabilities too, which no SDK client shows.
func TestCapabilityOnTheWire(t *testing.T) {
	var seen []string
	_, stop := connect(t, says("x"), wire.RevisionLegacy, func(far mcp.Transport) mcp.Transport { return &spyTransport{far, &seen} })
	defer stop()
	var r struct {
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	if err := json.Unmarshal([]byte(seen[0]), &r); err != nil {
		t.Fatal(err)
	}
	const want = `{"onUserMessage":true}`
	if got := string(r.Capabilities[CapabilityKey]); got != want {
		t.Errorf("top level: %s", got)
	}
	var experimental map[string]json.RawMessage
	if err := json.Unmarshal(r.Capabilities["experimental"], &experimental); err != nil || string(experimental[CapabilityKey]) != want {
		t.Errorf("experimental: %s, %v", r.Capabilities["experimental"], err)
	}
}

// A spyTransport keeps the results that its client reads.
type spyTransport struct {
	mcp.Transport
	seen *[]string
}

func (s *spyTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := s.Transport.Connect(ctx)
	return &spyConn{c, s.seen}, err
}

type spyConn struct {
	mcp.Connection
	seen *[]string
}

func (s *spyConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := s.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Response); ok && err == nil {
		*s.seen = append(*s.seen, string(r.Result))
	}
	return m, err
}

// CONV-2: bad params are refused with the fields that are wrong.
func TestBadParams(t *testing.T) {
	session, stop := connect(t, says("x"), wire.RevisionLegacy, nil)
	defer stop()
	for _, c := range []struct{ params, path string }{
		{`{"content":"x"}`, "/messageId"},
		{`{"messageId":"","content":"x"}`, "/messageId"},
		{`{"messageId":"m"}`, "/content"},
		{`{"messageId":"m","content":5}`, "/content"},
		{`{"messageId":"m","content":"x","recentHistory":[{"role":"system","content":"x"}]}`, "/recentHistory/0/role"},
		{`{"messageId":"m","content":"x","recentHistory":[{"role":"user"}]}`, "/recentHistory/0/content"},
	} {
		_, err := decodeMessage(json.RawMessage(c.params))
		var f *wire.FieldErrors
		if !errors.As(err, &f) || f.Errors[0].Path != c.path {
			t.Errorf("%s: %v", c.params, err)
		}
	}
	_, err := mcp.CallCustomMethod[*messageParams, *answerResult](t.Context(), session, MethodUserMessage, &messageParams{})
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != -32602 || !strings.Contains(string(e.Data), "/messageId") {
		t.Errorf("on the wire: %v %s", err, e.Data)
	}
}

// CONV-4, ERR-4: what goes wrong inside a server is not told, and the conversation goes on.
func TestFailuresAddNothing(t *testing.T) {
	handler := func(f func() (Answer[Memories], error)) Handler[Memories] {
		return Handler[Memories]{OnUserMessage: func(context.Context, Message) (Answer[Memories], error) { return f() }}
	}
	h := NewHub(HubOptions{Consents: approving(t, "error", "panic", "typed", "relevance", "fine"), Timeout: 5 * time.Second, Logger: quiet})
	for name, f := range map[string]func() (Answer[Memories], error){
		"error": func() (Answer[Memories], error) { return Answer[Memories]{}, errors.New("password is hunter2") },
		"panic": func() (Answer[Memories], error) { panic("password is hunter2") },
		"typed": func() (Answer[Memories], error) { return Answer[Memories]{}, events.Forbidden("not yours") },
		"relevance": func() (Answer[Memories], error) {
			return Answer[Memories]{Structured: &Memories{[]Memory{{Relevance: 2}}}}, nil
		},
		"fine": func() (Answer[Memories], error) { return Answer[Memories]{Context: "fine"}, nil },
	} {
		session, stop := connect(t, handler(f), wire.RevisionLegacy, nil)
		defer stop()
		if err := h.Add(name, session, ServerOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	in, err := h.UserMessage(t.Context(), Message{MessageID: "m", Content: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range in.Contributions {
		if (c.Err == nil) != (c.Server == "fine") {
			t.Errorf("%s: %v", c.Server, c.Err)
		}
		if c.Err != nil && strings.Contains(c.Err.Error(), "hunter2") {
			t.Errorf("%s leaks: %v", c.Server, c.Err)
		}
		if c.Server == "typed" && !strings.Contains(fmt.Sprint(c.Err), "Forbidden") {
			t.Errorf("typed error: %v", c.Err)
		}
	}
	if strings.Count(in.Text, "<server-context") != 1 {
		t.Errorf("injected %s", in.Text)
	}
}

// CONV-2: an answer of a server of another make that breaks the protocol counts as none, and says where.
func TestBadAnswers(t *testing.T) {
	text := "some context"
	for structured, where := range map[string]string{
		`[]`:             "structuredContext",
		`{"memories":3}`: "structuredContext",
		`{"memories":[{"relevance":0.5},{"relevance":1.5}]}`: "structuredContext.memories[1]",
	} {
		got, _, _, err := decodeAnswer(&answer{Context: &text, StructuredContext: json.RawMessage(structured)})
		if got != "" || !errors.Is(err, ErrBadAnswer) || !strings.Contains(err.Error(), where+": ") {
			t.Errorf("%s: %q, %v", structured, got, err)
		}
	}
	if _, err := Decode[Memories](Contribution{Structured: json.RawMessage(`{"memories":3}`)}); !errors.Is(err, ErrBadAnswer) {
		t.Errorf("Decode: %v", err)
	}
}

// CONV-4: servers are asked at once, late ones are left behind, and one that keeps being late is
// left out for a while, visibly, and can be reset.
func TestTimeoutsAndBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		var delay atomic.Int64
		delay.Store(int64(time.Hour))
		slow, stopSlow := connect(t, Handler[Memories]{OnUserMessage: func(ctx context.Context, _ Message) (Answer[Memories], error) {
			asked.Add(1)
			select {
			case <-time.After(time.Duration(delay.Load())):
				return Answer[Memories]{Context: "late"}, nil
			case <-ctx.Done():
				return Answer[Memories]{}, ctx.Err()
			}
		}}, wire.RevisionLegacy, nil)
		defer stopSlow()
		fast, stopFast := connect(t, says("fast"), wire.RevisionLegacy, nil)
		defer stopFast()
		h := NewHub(HubOptions{Consents: approving(t, "slow", "fast"), Logger: quiet})
		for name, s := range map[string]*mcp.ClientSession{"slow": slow, "fast": fast} {
			if err := h.Add(name, s, ServerOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		send := func(want error, wantAsked int32) {
			t.Helper()
			began := time.Now()
			in, err := h.UserMessage(t.Context(), Message{MessageID: "m", Content: "x"})
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 500*time.Millisecond {
				t.Fatalf("the conversation waited %v", took)
			}
			for _, c := range in.Contributions {
				if c.Server == "slow" && !errors.Is(c.Err, want) || c.Server == "fast" && c.Err != nil {
					t.Fatalf("%s: %v, want %v", c.Server, c.Err, want)
				}
			}
			if asked.Load() != wantAsked {
				t.Fatalf("asked %d times, want %d", asked.Load(), wantAsked)
			}
		}
		for i := range int32(3) {
			send(ErrTimeout, i+1)
		}
		send(ErrLeftOut, 3)
		status, err := h.Servers(t.Context())
		if err != nil || len(status) != 2 || status[1].Server != "slow" || status[1].Timeouts != 3 || status[1].LeftOutUntil.IsZero() || !errors.Is(status[1].LastError, ErrTimeout) {
			t.Fatalf("status %+v, %v", status, err)
		}
		time.Sleep(time.Minute)
		send(ErrTimeout, 4) // one is let through, and fails
		send(ErrLeftOut, 4)
		h.Reset("slow")
		send(ErrTimeout, 5)
		delay.Store(int64(100 * time.Millisecond))
		send(nil, 6)
	})
}

// CONV-5: without consent a server sees nothing; history and responses need their own; what is
// revoked while a message is under way is not used.
func TestConsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []Message
		answer := func(_ context.Context, m Message) (Answer[Memories], error) {
			seen = append(seen, m)
			time.Sleep(100 * time.Millisecond)
			return Answer[Memories]{Context: "ctx"}, nil
		}
		session, stop := connect(t, Handler[Memories]{OnUserMessage: answer, OnAssistantResponse: answer}, wire.RevisionLegacy, nil)
		defer stop()
		consents := NewConsents()
		h := NewHub(HubOptions{Consents: consents, AssistantResponses: true, Logger: quiet})
		if err := h.Add("s", session, ServerOptions{}); err != nil {
			t.Fatal(err)
		}
		msg := Message{MessageID: "m", Content: "x", RecentHistory: []Turn{{Assistant, "before"}}}
		user := func() *Injection {
			t.Helper()
			in, err := h.UserMessage(t.Context(), msg)
			if err != nil {
				t.Fatal(err)
			}
			return in
		}
		response := func() *Injection {
			t.Helper()
			in, err := h.AssistantResponse(t.Context(), msg)
			if err != nil {
				t.Fatal(err)
			}
			return in
		}
		if in := user(); len(in.Contributions) != 0 || len(seen) != 0 {
			t.Fatalf("a server without consent was asked: %+v", in)
		}
		consents.Grant(t.Context(), Consent{Server: "s"})
		if user(); len(seen) != 1 || seen[0].RecentHistory != nil {
			t.Fatalf("seen %+v", seen)
		}
		if response(); len(seen) != 1 {
			t.Fatal("responses were shown without consent")
		}
		consents.Grant(t.Context(), Consent{Server: "s", History: true, AssistantResponses: true})
		if user(); len(seen) != 2 || len(seen[1].RecentHistory) != 1 {
			t.Fatalf("seen %+v", seen)
		}
		if in := response(); len(seen) != 3 || in.Text == "" {
			t.Fatal("a response was not shown with consent (CONV-8)")
		}
		if in, err := NewHub(HubOptions{Consents: consents}).AssistantResponse(t.Context(), msg); err != nil || len(in.Contributions) != 0 {
			t.Fatal("responses are shown though it is off by default (CONV-8)")
		}
		go func() {
			time.Sleep(50 * time.Millisecond)
			h.Revoke(context.Background(), "s")
		}()
		if in := user(); in.Text != "" || !errors.Is(in.Contributions[0].Err, ErrRevoked) {
			t.Fatalf("revoked in flight: %+v", in)
		}
		if in := user(); len(in.Contributions) != 0 {
			t.Fatal("asked after the revocation")
		}
	})
}

// CONV-4: a server that is removed is asked no more, and the conversation does not wait for what is under way to it.
func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := Handler[Memories]{OnUserMessage: func(ctx context.Context, _ Message) (Answer[Memories], error) {
			<-ctx.Done()
			return Answer[Memories]{}, ctx.Err()
		}}
		h := NewHub(HubOptions{Consents: approving(t, "gone", "stays"), Timeout: time.Hour, Logger: quiet})
		for name, handler := range map[string]Handler[Memories]{"gone": waits, "stays": says("still here")} {
			session, stop := connect(t, handler, wire.RevisionLegacy, nil)
			defer stop()
			if err := h.Add(name, session, ServerOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.AfterFunc(time.Second, func() { h.Remove("gone") })
		began := time.Now()
		for range 2 {
			in, err := h.UserMessage(t.Context(), Message{MessageID: "m", Content: "x"})
			if err != nil || !strings.Contains(in.Text, "still here") {
				t.Fatalf("%+v, %v", in, err)
			}
			if took := time.Since(began); took != time.Second {
				t.Errorf("the conversation waited %v", took)
			}
		}
		if left, err := h.Servers(t.Context()); err != nil || len(left) != 1 || left[0].Server != "stays" {
			t.Errorf("servers %+v, %v", left, err)
		}
		h.Remove("unknown")
	})
}

// CONV-2: a message may come as a notification and is answered by one.
func TestNotificationForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers *Answers
		session, stop := connect(t, says("by notification"), wire.RevisionLegacy, func(far mcp.Transport) mcp.Transport {
			a, wrapped := NotificationForm(far)
			answers = a
			return wrapped
		})
		defer stop()
		h := NewHub(HubOptions{Consents: approving(t, "s"), Logger: quiet})
		if err := h.Add("s", session, ServerOptions{Notify: answers}); err != nil {
			t.Fatal(err)
		}
		in, err := h.UserMessage(t.Context(), Message{MessageID: "m", Content: "x"})
		if err != nil || !strings.Contains(in.Text, "by notification") {
			t.Fatalf("%+v, %v", in, err)
		}
	})
}

// CONV-6: order by priority, then name; bounds for one server and in all.
func TestMergeOrderAndBounds(t *testing.T) {
	h := NewHub(HubOptions{Consents: approving(t, "a", "b", "c", "d"), Timeout: 5 * time.Second, MaxServerBytes: 20, MaxBytes: 50, Logger: quiet})
	for name, priority := range map[string]int{"a": 0, "b": 5, "c": 5, "d": -1} {
		session, stop := connect(t, says(strings.Repeat(name, 40)), wire.RevisionLegacy, nil)
		defer stop()
		if err := h.Add(name, session, ServerOptions{Priority: priority}); err != nil {
			t.Fatal(err)
		}
	}
	in, err := h.UserMessage(t.Context(), Message{MessageID: "m", Content: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	total := 0
	for i, part := range strings.Split(in.Text, "<server-context server=\"")[1:] {
		name, rest, _ := strings.Cut(part, "\">\n")
		text, _, _ := strings.Cut(rest, "\n</server-context>")
		order = append(order, name)
		total += len(text)
		if len(text) > 20 || !in.Contributions[i].Truncated {
			t.Errorf("%s: %d bytes, truncated %v", name, len(text), in.Contributions[i].Truncated)
		}
	}
	if strings.Join(order, "") != "bca" && strings.Join(order, "") != "bcad" || total > 50 {
		t.Errorf("order %v, %d bytes in all", order, total)
	}
}
