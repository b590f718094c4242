package overlay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

const (
	listEvents = `{"jsonrpc":"2.0","id":1,"method":"events/list"}`
	initialize = `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
)

// A caller that next refuses receives next's refusal, whatever it calls, and with a token of the handler in front too.
func TestRefused(t *testing.T) {
	refuse := answering(http.StatusUnauthorized, "text/plain", "who are you?", "WWW-Authenticate", "Bearer x")
	front := auth.RequireBearerToken(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "ada"}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	for _, s := range []setup{{}, {front: front}, {options: Options{Ask: AskToolsList}}} {
		b := newBed(t, refuse, s)
		b.hc.Transport = withToken{b.hc.Transport}
		for _, resp := range []*http.Response{
			b.post(listEvents),
			b.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"events_wait","arguments":{"events":[{"name":"tick"}]}}}`),
			b.post(`{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"tick"}}`, "Mcp-Session-Id", "s"),
			b.modern("events/list", "events/list", ""), b.modern("tools/call", "events/list", ""), b.modern("events/list", "tools/call", `"name":"x"`),
			b.modern("subscriptions/listen", "subscriptions/listen", `"notifications":{"eventsListChanged":true}`),
		} {
			if got := text(resp); resp.StatusCode != 401 || got != "who are you?" || resp.Header.Get("WWW-Authenticate") != "Bearer x" {
				t.Errorf("%d %q %v", resp.StatusCode, got, resp.Header)
			}
		}
	}
	b := newBed(t, refuse, setup{options: Options{Trusted: true}})
	if got := text(b.post(listEvents)); !strings.Contains(got, `"tick"`) || b.asked.Load() != 0 {
		t.Errorf("trusted: %s, next was asked %d times", got, b.asked.Load())
	}
}

type withToken struct{ http.RoundTripper }

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer t")
	return w.RoundTripper.RoundTrip(r)
}

// What is asked, with which headers, and which answers let a caller in.
func TestQuestions(t *testing.T) {
	for _, c := range []struct {
		ask     Ask
		modern  bool
		answer  string
		want    string // in the body that next receives
		accepts bool
	}{
		{AskPing, false, `{"jsonrpc":"2.0","id":1,"result":{}}`, `"method":"ping","params":{}`, true},
		{AskPing, false, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no ping"}}`, `"ping"`, true},
		{AskPing, false, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}`, `"ping"`, false},
		{AskPing, true, `{"jsonrpc":"2.0","id":1,"result":{}}`, `"method":"server/discover","params":{"_meta":{"io`, true},
		{AskPing, true, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`, `"server/discover"`, false},
		{AskToolsList, false, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`, `"method":"tools/list","params":{}`, true},
		{AskToolsList, true, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`, `"method":"tools/list","params":{"_meta":{"io`, true},
		{AskToolsList, false, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`, `"tools/list"`, false},
	} {
		asked := make(chan string, 1)
		b := newBed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked <- string(body)
			if m := r.Header.Get("Mcp-Method"); c.modern && !strings.Contains(string(body), `"`+m+`"`) || r.Header.Get("Mcp-Name") != "" || r.Header.Get("X-Key") != "k" {
				t.Errorf("headers %v", r.Header)
			}
			answering(200, "application/json", c.answer)(w, r)
		}), setup{options: Options{Ask: c.ask}})
		var resp *http.Response
		if c.modern {
			resp = b.modern("events/list", "events/list", "", "Mcp-Name", "x", "X-Key", "k")
		} else {
			resp = b.post(listEvents, "X-Key", "k")
		}
		if got := text(resp); strings.Contains(got, `"tick"`) != c.accepts {
			t.Errorf("%v %s: %s", c.ask, c.answer, got)
		}
		if got := <-asked; !strings.Contains(got, c.want) {
			t.Errorf("asked %s, want %s", got, c.want)
		}
	}
	// An error has the ID of the call, not that of the question.
	b := newBed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, _ := parse(body)
		answering(200, "application/json", string(response(m.ID, "error", errorValue(-32000, "no"))))(w, r)
	}), setup{})
	if got := text(b.post(`{"jsonrpc":"2.0","id":1.50,"method":"events/list"}`)); got != `{"jsonrpc":"2.0","id":1.50,"error":{"code":-32000,"message":"no"}}` {
		t.Error(got)
	}
}

// A next that gives no usable answer lets nobody in. The client and the log say why, and the answer is bounded.
func TestUnusableAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		next   http.HandlerFunc
		status int
		log    string
	}{
		"panics":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502, "abort Handler"},
		"hangs":      {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 504, "deadline"},
		"wrong JSON": {answering(200, "application/json", `{"jsonrpc"`), 502, "no JSON-RPC response"},
		"HTML":       {answering(200, "text/html", "<p>"), 502, "text/html"},
		"long": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for range 100 { // 100 MB
				if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
					return
				}
			}
			t.Error("100 MB were read")
		}, 502, "too long"},
		"dies in an event stream": {answering(200, "text/event-stream", ": c\n\ndata: {\"jsonrpc\":"), 502, "no JSON-RPC response"},
		"compressed":              {answering(200, "application/json", "\x1f\x8b\x08", "Content-Encoding", "gzip"), 502, "no JSON-RPC response"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, c.next, setup{})
				resp := b.post(listEvents)
				if got := text(resp); resp.StatusCode != c.status || !strings.Contains(got, "the MCP server next to events did not answer") || !strings.Contains(got, `"id":1`) {
					t.Errorf("%d %s", resp.StatusCode, got)
				}
				if !strings.Contains(b.log.String(), c.log) {
					t.Error(b.log.String())
				}
			})
		})
	}
	// An event stream that stays open after the response is answer enough.
	b := newBed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answering(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\ndata: "+accepted+"\n\n")(w, r)
		<-r.Context().Done()
	}), setup{})
	if got := text(b.post(listEvents)); !strings.Contains(got, `"tick"`) {
		t.Error(got)
	}
}

// Where header and body disagree, neither server does anything.
func TestDisagreement(t *testing.T) {
	b := newBed(t, answering(200, "application/json", accepted), setup{options: Options{Trusted: true}})
	for _, c := range [][2]string{{"events/list", "tools/call"}, {"tools/call", "events/list"}, {"", "events/list"}, {"events/poll", "events/list"}, {"events/list", ""}} {
		resp := b.modern(c[0], c[1], `"name":"x"`)
		if got := text(resp); resp.StatusCode/100 != 4 || !strings.Contains(got, `"error"`) && !strings.Contains(got, "missing") {
			t.Errorf("%q: %d %s", c, resp.StatusCode, got)
		}
	}
	if n := b.asked.Load(); n != 0 {
		t.Errorf("next received %d requests", n)
	}
}

// A batch passes through, unless it has a call of the event server.
func TestBatches(t *testing.T) {
	b := newBed(t, accepting(nil), setup{})
	const other = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	const wait = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"events_wait"}}`
	for body, want := range map[string]string{
		"[" + other + "]":                                        `"next":true`,
		"[" + listEvents + "]":                                   "batches are not supported for events",
		"[" + other + "," + listEvents + "]":                     "batches are not supported for events",
		"[" + other + "," + wait + "]":                           "batches are not supported for events",
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"events/list"}`: `"next":true`, // malformed: next refuses it
		`{"jsonrpc":"2.0","method":"events/list"}`:               "/id is missing",
		`[`: `"next":true`,
	} {
		if got := text(b.post(body)); !strings.Contains(got, want) {
			t.Errorf("%s: %s", body, got)
		}
	}
}

// What is added to each form of an answer.
func TestMerges(t *testing.T) {
	const result = `{"jsonrpc":"2.0","id":7,"result":{"protocolVersion":"2025-06-18","capabilities":{"prompts":{}},"serverInfo":{"name":"n","version":"1"},"x":1e400}}`
	list := func(params string) string {
		return `{"jsonrpc":"2.0","id":7.0,"method":"tools/list","params":{` + params + `}}`
	}
	const tools = `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"events_wait","description":"theirs"},{"name":"a"}],"nextCursor":"c2"}}`
	var z bytes.Buffer
	zw := gzip.NewWriter(&z)
	_, _ = io.WriteString(zw, result)
	_ = zw.Close()
	for _, c := range []struct {
		what, request, media, answer string
		status                       int
		headers                      []string
		want, not                    []string
		log                          string
	}{
		{what: "JSON", request: initialize, media: "application/json", answer: result, want: []string{`"io.modelcontextprotocol/events":{}`, `"tools":{}`, `"prompts":{}`, `"x":1e400`}},
		{what: "JSON in a session", request: initialize, media: "application/json; charset=utf-8", answer: result, headers: []string{"Mcp-Session-Id", "s"}, want: []string{`"events":{"listChanged":true}`}},
		{what: "SSE", request: initialize, media: "text/event-stream", answer: "id: 1\ndata: \n\nevent: message\nid: 2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n: c\n\nevent: message\nid: 3\ndata: " + result + "\n\n",
			want: []string{"id: 1\ndata: \n\n", "event: message\nid: 2\n", ": c\n\n", "event: message\nid: 3\ndata: {", `"events":{}`}},
		{what: "CRLF, two lines", request: initialize, media: "text/event-stream", answer: "data: {\"jsonrpc\":\"2.0\",\r\ndata: " + result[len(`{"jsonrpc":"2.0",`):] + "\r\n\r\n", want: []string{`"events":{}`}},
		{what: "refused", request: initialize, media: "application/json", answer: `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}`, status: 400, want: []string{`"no"`}, not: []string{"events"}},
		{what: "has events", request: initialize, media: "application/json", answer: strings.Replace(result, `"prompts"`, `"events":{"theirs":1},"prompts"`, 1), want: []string{`"events":{}`}, not: []string{"theirs"}, log: "offers events too"},
		{what: "page 1", request: list(""), media: "application/json", answer: tools, want: []string{`"id":7.0`, `"nextCursor":"c2"`, `"name":"a"`, `"events_wait"`}, not: []string{"theirs"}, log: "tool=events_wait"},
		{what: "page 2", request: list(`"cursor":"c2"`), media: "application/json", answer: tools, want: []string{`"nextCursor":"c2"`, `"name":"a"`}, not: []string{"events_wait"}, log: "tool=events_wait"},
		{what: "no tools", request: list(""), media: "application/json", answer: `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}`, status: 404, want: []string{`"events_wait"`, `"id":7.0`}, not: []string{"error"}},
		{what: "not JSON", request: list(""), media: "text/html", answer: "<p>", status: 502, want: []string{"<p>"}},
		{what: "broken", request: list(""), media: "application/json", answer: `{"jsonrpc"`, want: []string{`{"jsonrpc"`}, log: "is not a JSON-RPC response"},
		{what: "compressed", request: initialize, media: "application/json", answer: z.String(), headers: []string{"Content-Encoding", "gzip"}, want: []string{z.String()}, log: "Content-Encoding gzip"},
		{what: "ends early", request: list(""), media: "text/event-stream", answer: "data: {\"jsonrpc\":", want: []string{`"id":7.0,"error":{"code":-32603`, "ended its answer"}, log: "ended before the response"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.status == 0 {
				c.status = 200
			}
			b := newBed(t, answering(c.status, c.media, c.answer, append(c.headers, "Content-Length", fmt.Sprint(len(c.answer)))...), setup{})
			resp := b.post(c.request, "Accept-Encoding", "gzip")
			got := text(resp)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q lacks %q", got, want)
				}
			}
			for _, not := range c.not {
				if strings.Contains(got, not) {
					t.Errorf("%q has %q", got, not)
				}
			}
			if c.media == "application/json" && resp.ContentLength != int64(len(got)) {
				t.Errorf("Content-Length %d of %d", resp.ContentLength, len(got))
			}
			if !strings.Contains(b.log.String(), c.log) || c.log == "" && b.log.String() != "" {
				t.Errorf("log %q", b.log.String())
			}
			if _ = text(b.post(c.request)); strings.Contains(c.log, "tool=") && strings.Count(b.log.String(), "hidden") != 1 {
				t.Errorf("not logged once: %s", b.log.String())
			}
		})
	}
}

// An answer above the limit passes through unchanged. One that next aborts becomes an error if nothing was written.
func TestLongAndAbortedAnswers(t *testing.T) {
	const tools = `{"jsonrpc":"2.0","id":7,"result":{"tools":[],"x":"`
	for _, media := range []string{"application/json", "text/event-stream"} {
		head, tail := "", ""
		if media == "text/event-stream" {
			head, tail = "data: ", "\n\n"
		}
		long := head + tools + strings.Repeat("x", 1<<20) + `"}}` + tail
		b := newBed(t, answering(200, media, long), setup{options: Options{MaxAnswer: 1 << 10}})
		if got := text(b.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)); got != long || !strings.Contains(b.log.String(), "more than 1024 bytes") {
			t.Errorf("%d of %d bytes, %s", len(got), len(long), b.log.String())
		}
		b = newBed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answering(200, media, head+tools)(w, r)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}), setup{})
		resp := b.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
		if got := text(resp); !strings.Contains(got, `"id":7,"error":{"code":-32603`) || (resp.StatusCode == 502) != (media == "application/json") || b.log.String() == "" {
			t.Errorf("%d %s %s", resp.StatusCode, got, b.log.String())
		}
	}
}

// Neither a body nor an answer of next is held: next reads before all is sent, and the client before all is written. The
// time for a long body is the server's.
func TestPassesThrough(t *testing.T) {
	got, more := make(chan int, 2), make(chan struct{})
	b := newBed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 8<<20 {
			t.Errorf("Content-Length %d", r.ContentLength)
		}
		n, _ := io.ReadFull(r.Body, make([]byte, 1<<20))
		got <- n
		rest, _ := io.Copy(io.Discard, r.Body)
		got <- int(rest)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-more
		_, _ = io.WriteString(w, "data: 2\n\n")
	}), setup{web: func(s *http.Server) { s.ReadTimeout = time.Minute }})
	pr, pw := io.Pipe()
	go func() {
		head := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"`
		_, _ = io.WriteString(pw, head+strings.Repeat("x", 2<<20-len(head)))
		if n := <-got; n != 1<<20 {
			t.Error(n)
		}
		_, _ = io.WriteString(pw, strings.Repeat("x", 6<<20-4)+`"}}}`)
		_ = pw.Close()
	}()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://next.example/mcp", pr)
	r.ContentLength = 8 << 20
	r.Header.Set("Content-Type", "application/json")
	resp, err := b.hc.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line, _ := lines.ReadString('\n'); line != "data: 1\n" {
		t.Errorf("%q", line)
	}
	close(more)
	if rest, _ := io.ReadAll(lines); string(rest) != "\ndata: 2\n\n" {
		t.Errorf("%q", rest)
	}
}

// A body that does not arrive is refused, and a slow one of next ends by the server's timeout.
func TestSlowBodies(t *testing.T) {
	for _, length := range []int64{100, 1 << 20} {
		synctest.Test(t, func(t *testing.T) {
			read := make(chan error, 1)
			b := newBed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				read <- err
			}), setup{options: Options{Handler: transport.HandlerOptions{ReadTimeout: 5 * time.Second}}, web: func(s *http.Server) { s.ReadTimeout = 20 * time.Second }})
			pr, pw := io.Pipe()
			defer pw.Close()
			go func() { _, _ = pw.Write(bytes.Repeat([]byte(" "), int(min(length-1, 400<<10)))) }()
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://next.example/mcp", pr)
			r.ContentLength = length
			r.Header.Set("Content-Type", "application/json")
			start := time.Now()
			resp, err := b.hc.Do(r)
			if err == nil {
				defer resp.Body.Close()
			}
			if length == 100 {
				if err != nil || resp.StatusCode != http.StatusRequestTimeout || time.Since(start) != 5*time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				return
			}
			if err := <-read; err == nil || time.Since(start) != 20*time.Second {
				t.Errorf("next read with %v after %v", err, time.Since(start))
			}
		})
	}
}

// Requests count against MaxOpen before next is asked.
func TestMaxOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
			setup{options: Options{Handler: transport.HandlerOptions{MaxOpen: 2}}})
		for _, body := range []string{listEvents, initialize} {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://next.example/mcp", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				if _, err := b.hc.Do(r); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if resp := b.post(listEvents); resp.StatusCode != http.StatusTooManyRequests || b.asked.Load() != 2 {
			t.Errorf("%d, next received %d requests", resp.StatusCode, b.asked.Load())
		}
		time.Sleep(2 * time.Second)
	})
}

// A call with a token and without a principal is logged once.
func TestPrincipalLogged(t *testing.T) {
	b := newBed(t, accepting(nil), setup{})
	for range 3 {
		b.post(listEvents)
	}
	if got := b.log.String(); got != "" {
		t.Errorf("without a token: %s", got)
	}
	for range 3 {
		b.post(listEvents, "Authorization", "Bearer t")
	}
	if got := b.log.String(); strings.Count(got, "server.Options.Principal") != 1 {
		t.Errorf("log %s", got)
	}
	named := newBed(t, accepting(nil), setup{server: server.Options{Principal: func(context.Context, *mcp.RequestExtra) string { return "ada" }}})
	if named.post(listEvents, "Authorization", "Bearer t"); named.log.String() != "" {
		t.Error(named.log.String())
	}
}

// An event server that only emits leaves next as it is, and the log says so.
func TestEmitOnly(t *testing.T) {
	es, err := server.NewEmitOnly(server.Options{Store: memcluster.New().Open(), Replicas: replicas.New(replicas.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	defer es.Shutdown(t.Context())
	rec := httptest.NewRecorder()
	NewHandler(es, answering(200, "text/plain", "next"), Options{}).ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(listEvents)))
	if rec.Body.String() != "next" {
		t.Error(rec.Body)
	}
}

// A gateway in front of a server of the SDK with sessions, with the SDK's client and everything at once.
func TestGateway(t *testing.T) {
	theirs := mcp.NewServer(&mcp.Implementation{Name: "n", Version: "1"}, nil)
	mcp.AddTool(theirs, &mcp.Tool{Name: "theirs"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, map[string]any, error) {
		return nil, map[string]any{"ok": true}, nil
	})
	up := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return theirs }, nil))
	defer up.Close()
	to, _ := url.Parse(up.URL)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	b := newBed(t, &httputil.ReverseProxy{Transport: tr, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}, setup{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
			s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://next.example/mcp", HTTPClient: b.hc}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for range 5 {
				tools, err := s.ListTools(t.Context(), nil)
				if err != nil || len(tools.Tools) != 2 {
					t.Error(err, tools)
				}
				for name, arguments := range map[string]any{"theirs": nil, "events_wait": map[string]any{"events": []any{map[string]any{"name": "tick"}}, "waitSeconds": 0}} {
					res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
					if err != nil || res.IsError {
						t.Error(name, err, res)
					}
				}
			}
		})
	}
	all.Wait()
}
