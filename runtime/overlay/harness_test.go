package overlay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type tick struct {
	Seq int `json:"seq"`
}

func tickType(name string) events.Type[struct{}, tick] {
	return events.Type[struct{}, tick]{Info: events.Info{Name: name, Description: "A tick.",
		InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object"}`)}}
}

// A bed is a handler of this package on a network in memory, with a next that a test writes.
type bed struct {
	t     *testing.T
	h     *handler
	es    *server.Server
	ticks *server.Emitter[tick]
	hc    *http.Client
	asked atomic.Int32 // requests that next received
	log   logBuffer
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// setup are the parts of a bed that a test may choose.
type setup struct {
	server  server.Options
	options Options
	front   func(http.Handler) http.Handler // such as authentication
	web     func(*http.Server)
}

func newBed(t *testing.T, next http.Handler, s setup) *bed {
	t.Helper()
	b := &bed{t: t}
	s.server.Logger = slog.New(slog.DiscardHandler)
	var err error
	if b.es, err = server.New(mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil), s.server); err != nil {
		t.Fatal(err)
	}
	b.ticks = b.register("tick")
	if err := b.es.AddWaitTool(); err != nil {
		t.Fatal(err)
	}
	s.options.Handler.Logger = slog.New(slog.NewTextHandler(&b.log, nil))
	h := NewHandler(b.es, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked.Add(1)
		next.ServeHTTP(w, r)
	}), s.options)
	b.h = h.(*handler)
	if s.front != nil {
		h = s.front(h)
	}
	l := memnet.New()
	web := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	if s.web != nil {
		s.web(web)
	}
	carrier := &http.Transport{DialContext: l.DialContext, DisableCompression: true}
	b.hc = &http.Client{Transport: carrier}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = web.Serve(l)
	}()
	t.Cleanup(func() {
		_ = b.es.Shutdown(context.Background())
		carrier.CloseIdleConnections()
		_ = web.Close()
		<-served
	})
	return b
}

func (b *bed) register(name string) *server.Emitter[tick] {
	b.t.Helper()
	e, err := server.Register(b.es, tickType(name), server.Hooks[struct{}, tick]{})
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

// post sends a body; headers are name, value, ….
func (b *bed) post(body string, headers ...string) *http.Response {
	b.t.Helper()
	return b.do(b.t.Context(), http.MethodPost, body, headers...)
}

func (b *bed) do(ctx context.Context, method, body string, headers ...string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://next.example/mcp", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.hc.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// modern sends a call of the stateless revision. The header names a method too, which may be another one.
func (b *bed) modern(header, method, params string, headers ...string) *http.Response {
	b.t.Helper()
	if params != "" {
		params += ","
	}
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	return b.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+meta+`}}`,
		append([]string{wire.HeaderProtocolVersion, "2026-07-28", wire.HeaderMethod, header}, headers...)...)
}

// open opens a stream, in a session if there is one, and returns what ends with it.
func (b *bed) open(session, id string, headers ...string) (ended <-chan string) {
	b.t.Helper()
	if session != "" {
		headers = append(headers, wire.HeaderSessionID, session, wire.HeaderProtocolVersion, "2025-06-18")
	}
	resp := b.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"events/stream","params":{"name":"tick","cursor":null}}`, headers...)
	return rest(b.t, resp)
}

// rest reads the active notification of a stream and then, until its end, everything else.
func rest(t *testing.T, resp *http.Response) <-chan string {
	t.Helper()
	lines := bufio.NewReader(resp.Body)
	if line, _ := lines.ReadString('\n'); !strings.Contains(line, wire.NotificationActive) {
		t.Fatalf("%d %q", resp.StatusCode, line)
	}
	all := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(lines)
		all <- string(b)
	}()
	return all
}

func text(r *http.Response) string {
	b, _ := io.ReadAll(r.Body)
	r.Body.Close()
	return string(b)
}

// answering is a next that gives every request the same answer.
func answering(status int, contentType, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const accepted = `{"jsonrpc":"2.0","id":1,"result":{"next":true}}`

// accepting is a next of a legacy revision that accepts everything. It writes what told has to a GET.
func accepting(told <-chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			for {
				select {
				case s := <-told:
					_, _ = io.WriteString(w, s)
					w.(http.Flusher).Flush()
				case <-r.Context().Done():
					return
				}
			}
		case http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "notifications/") {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			answering(http.StatusOK, "application/json", accepted)(w, r)
		}
	}
}
