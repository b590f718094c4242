package conversation

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// CONV-2, V2: over HTTP a message may come as a notification, in both eras. The author's function learns whose it is; in
// a legacy session its answer comes by the GET stream, on 2026-07-28 nothing can come back.
func TestNotificationsOverHTTP(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 10)
	answer := func(ctx context.Context, m Message) (Answer[Memories], error) {
		seen <- server.PrincipalOf(ctx) + " " + m.MessageID
		return Answer[Memories]{Context: "about " + m.Content}, nil
	}
	if err := Register(es, Handler[Memories]{OnUserMessage: answer, OnAssistantResponse: answer}, Options{}); err != nil {
		t.Fatal(err)
	}
	known := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}, nil)
	ts := httptest.NewServer(known(transport.NewHandler(es, transport.HandlerOptions{Logger: quiet})))
	defer func() {
		es.Shutdown(context.Background())
		for ss := range srv.Sessions() {
			ss.Close()
		}
		ts.CloseClientConnections()
		ts.Close()
		ts.Client().CloseIdleConnections()
	}()
	ask := func(method, body string, header map[string]string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, ts.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer ann")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for name, value := range header {
			r.Header.Set(name, value)
		}
		resp, err := ts.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	say := func(body string, header map[string]string) {
		t.Helper()
		resp := ask(http.MethodPost, body, header)
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted || len(b) > 0 {
			t.Fatalf("%s %s", resp.Status, b)
		}
	}
	sees := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("seen %q, want %q", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is not seen", want)
		}
	}
	resp := ask(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+wire.RevisionLegacy+
		`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, nil)
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	session := map[string]string{"Mcp-Session-Id": resp.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": wire.RevisionLegacy}
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, session)
	get := ask(http.MethodGet, "", session)
	defer get.Body.Close()
	stream := bufio.NewScanner(get.Body)
	for i, method := range []string{MethodUserMessage, MethodAssistantResponse} {
		say(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"messageId":"l%d","content":"checkout"}}`, method, i), session)
		sees(fmt.Sprint("ann l", i))
		want := fmt.Sprintf(`data: {"jsonrpc":"2.0","method":"conversation/context","params":{"messageId":"l%d","context":"about checkout"}}`, i)
		for stream.Scan() && !strings.HasPrefix(stream.Text(), "data: {") {
		}
		if got := stream.Text(); got != want {
			t.Errorf("by the GET stream came %s\nwant %s", got, want)
		}
		say(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"messageId":"s%d","content":"x","_meta":{"io.modelcontextprotocol/protocolVersion":%q,`+
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`, method, i, wire.RevisionStateless),
			map[string]string{"Mcp-Protocol-Version": wire.RevisionStateless, "Mcp-Method": method})
		sees(fmt.Sprint("ann s", i))
	}
	if len(seen) > 0 {
		t.Errorf("seen once more: %s", <-seen)
	}
}

// POLL-9, V5, ERR-4: a message that its client gives up is not answered, on stdio as in memory.
func TestCancelledMessage(t *testing.T) {
	for _, version := range eras {
		begun, over := make(chan struct{}), make(chan struct{})
		var seen []string
		session, stop := connect(t, Handler[Memories]{OnUserMessage: func(ctx context.Context, _ Message) (Answer[Memories], error) {
			close(begun)
			<-ctx.Done()
			defer close(over)
			return Answer[Memories]{}, ctx.Err()
		}}, version, func(far mcp.Transport) mcp.Transport { return &spyTransport{far, &seen} })
		h := NewHub(HubOptions{Consents: approving(t, "slow"), Timeout: 50 * time.Millisecond, Logger: quiet})
		if err := h.Add("slow", session, ServerOptions{}); err != nil {
			t.Fatal(err)
		}
		in, err := h.UserMessage(t.Context(), Message{MessageID: "1", Content: "x"})
		if err != nil || len(in.Contributions) != 1 || in.Contributions[0].Err != ErrTimeout {
			t.Errorf("%s: %+v %v", version, in, err)
		}
		<-begun
		<-over
		before := 1 // initialize or discover
		if _, err := session.ListTools(t.Context(), nil); err != nil {
			t.Error(err)
		}
		stop()
		if len(seen) != before+1 {
			t.Errorf("%s: responses %q", version, seen)
		}
	}
}

// CONV-2 over HTTP+SSE: requests and notifications work as on stdio.
func TestConversationOverSSE(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if err := Register(es, says("about it"), Options{}); err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(transport.NewSSEHandler(srv, es, nil))
	defer func() {
		es.Shutdown(context.Background())
		ts.CloseClientConnections()
		ts.Close()
		ts.Client().CloseIdleConnections()
	}()
	get, err := ts.Client().Get(ts.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer get.Body.Close()
	stream := bufio.NewScanner(get.Body)
	next := func() string {
		t.Helper()
		for stream.Scan() {
			if data, ok := strings.CutPrefix(stream.Text(), "data: "); ok {
				return data
			}
		}
		t.Fatalf("the stream has ended: %v", stream.Err())
		return ""
	}
	endpoint := ts.URL + next()
	for _, c := range [][2]string{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, `"conversation`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		{`{"jsonrpc":"2.0","id":2,"method":"conversation/userMessage","params":{"messageId":"m1","content":"x"}}`, `{"jsonrpc":"2.0","id":2,"result":{"context":"about it"}}`},
		{`{"jsonrpc":"2.0","method":"conversation/userMessage","params":{"messageId":"m2","content":"x"}}`,
			`{"jsonrpc":"2.0","method":"conversation/context","params":{"messageId":"m2","context":"about it"}}`},
	} {
		resp, err := ts.Client().Post(endpoint, "application/json", strings.NewReader(c[0]))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Fatalf("%s: %s", c[0], resp.Status)
		}
		if c[1] == "" {
			continue
		}
		if got := next(); !strings.Contains(got, c[1]) {
			t.Errorf("%s\nis answered by %s\nwant %s", c[0], got, c[1])
		}
	}
}

// TestNotificationsOfSeveralSenders: some senders flood the server with notifications that take as long as they may. The
// notification of another sender is answered.
func TestNotificationsOfSeveralSenders(t *testing.T) {
	for _, k := range []int{1, 2, 3, 10, 30} {
		synctest.Test(t, func(t *testing.T) {
			es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil), server.Options{Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer es.Shutdown(context.Background())
			var answered atomic.Int32
			answer := func(ctx context.Context, _ Message) (Answer[Memories], error) {
				if server.PrincipalOf(ctx) == "quiet" {
					answered.Add(1)
					return Answer[Memories]{}, nil
				}
				<-ctx.Done()
				return Answer[Memories]{}, ctx.Err()
			}
			if err := Register(es, Handler[Memories]{OnUserMessage: answer}, Options{}); err != nil {
				t.Fatal(err)
			}
			handler := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
				return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
			}, nil)(transport.NewHandler(es, transport.HandlerOptions{Logger: quiet}))
			say := func(principal string) {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","method":"`+MethodUserMessage+
					`","params":{"messageId":"m","content":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"`+wire.RevisionStateless+
					`","io.modelcontextprotocol/clientCapabilities":{}}}}`))
				for name, value := range map[string]string{"Authorization": "Bearer " + principal, "Content-Type": "application/json",
					"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": wire.RevisionStateless, "Mcp-Method": MethodUserMessage} {
					r.Header.Set(name, value)
				}
				w := httptest.NewRecorder()
				if handler.ServeHTTP(w, r); w.Code != http.StatusAccepted {
					t.Fatalf("status %d: %s", w.Code, w.Body)
				}
			}
			for range 100 {
				for n := range k {
					say(fmt.Sprint("noisy_", n))
				}
			}
			say("quiet")
			synctest.Wait()
			if answered.Load() != 1 {
				t.Errorf("with %d others, the notification of a sender is dropped", k)
			}
		})
	}
}
