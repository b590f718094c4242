package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

var update = flag.Bool("update", false, "write the transcripts of testdata anew")

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(withPostgres{m})
}

// withPostgres are the tests, which may have started a PostgreSQL.
type withPostgres struct{ *testing.M }

func (m withPostgres) Run() int { return pgtest.Main(m.M) }

type tickArguments struct {
	Channel string `json:"channel,omitempty"`
}

type tickPayload struct {
	Seq     int    `json:"seq"`
	Channel string `json:"channel,omitempty"`
	Note    string `json:"note,omitempty"`
}

func tickType(name string) events.Type[tickArguments, tickPayload] {
	return events.Type[tickArguments, tickPayload]{Info: events.Info{
		Name: name, Description: "A tick.",
		InputSchema:   json.RawMessage(`{"type":"object","properties":{"channel":{"type":"string"}},"additionalProperties":false}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"seq":{"type":"integer"},"channel":{"type":"string"},"note":{"type":"string"}},"required":["seq"]}`),
		Match:         []events.MatchRule{{Argument: "channel", Path: "/channel", Op: events.MatchEqual}},
	}}
}

// A rig is an events server with one event type "tick", and whatever carries it.
type rig struct {
	t     testing.TB
	srv   *mcp.Server
	es    *server.Server
	ticks *server.Emitter[tickPayload]
	// ended receives the id of each subscription whose OnUnsubscribe ran.
	ended  chan string
	opened chan string
	// polls counts the events/poll calls under way, in middleware and in the handler around it.
	polls atomic.Int32
	// next is the server next to the overlay, if any.
	next *mcp.Server
	// hold, when set, delays OnSubscribe until it is closed.
	hold chan struct{}
}

func newRig(t testing.TB, o server.Options) *rig {
	t.Helper()
	g := plainRig(t, o)
	g.srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == wire.MethodPoll {
				g.polls.Add(1)
				defer g.polls.Add(-1)
			}
			return next(ctx, method, req)
		}
	})
	return g
}

// inBothWays runs f with a server that has receiving middleware of its author, and with one that has none.
func inBothWays(t *testing.T, o server.Options, f func(t *testing.T, g *rig)) {
	t.Run("middleware", func(t *testing.T) { f(t, newRig(t, o)) })
	t.Run("plain", func(t *testing.T) { f(t, plainRig(t, o)) })
}

// plainRig is a rig whose server has no receiving middleware of its author. It does not count polls.
func plainRig(t testing.TB, o server.Options) *rig {
	t.Helper()
	return rigAround(t, o)
}

// rigAround is a rig whose server has middleware of its author from before it served events.
func rigAround(t testing.TB, o server.Options, inner ...mcp.Middleware) *rig {
	t.Helper()
	g := &rig{t: t, ended: make(chan string, 2000), opened: make(chan string, 2000)}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g.srv = mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	g.srv.AddReceivingMiddleware(inner...)
	mcp.AddTool(g.srv, &mcp.Tool{Name: "noop"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	var err error
	if g.es, err = server.New(g.srv, o); err != nil {
		t.Fatal(err)
	}
	g.ticks, err = server.Register(g.es, tickType("tick"), server.Hooks[tickArguments, tickPayload]{
		OnSubscribe: func(ctx context.Context, sub server.Subscription, _ *tickArguments) error {
			g.opened <- sub.ID
			if g.hold != nil {
				select {
				case <-g.hold:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		},
		OnUnsubscribe: func(_ context.Context, sub server.Subscription, _ *tickArguments) { g.ended <- sub.ID },
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// addType registers a further event type, which changes the list.
func (g *rig) addType(name string) {
	g.t.Helper()
	if _, err := server.Register(g.es, tickType(name), server.Hooks[tickArguments, tickPayload]{}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) emit(seq int, o ...events.EmitOption) {
	g.t.Helper()
	if err := g.ticks.Emit(context.Background(), tickPayload{Seq: seq}, o...); err != nil {
		g.t.Error(err)
	}
}

// stop ends everything that the rig's server still has open.
func (g *rig) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = g.es.Shutdown(ctx)
	for ss := range g.srv.Sessions() {
		ss.Close()
	}
}

// A mode is a way to reach the server.
type mode struct {
	name    string
	http    bool
	h2      bool
	version string
	overlay bool // through the handler of package overlay, next to another server
}

func (m mode) modern() bool { return m.version >= wire.RevisionStateless }

var modes = []mode{
	{name: "stdio/legacy", version: wire.RevisionLegacy},
	{name: "stdio/2026-07-28", version: wire.RevisionStateless},
	{name: "http1/legacy", http: true, version: wire.RevisionLegacy},
	{name: "http1/2026-07-28", http: true, version: wire.RevisionStateless},
	{name: "http2/legacy", http: true, h2: true, version: wire.RevisionLegacy},
	{name: "http2/2026-07-28", http: true, h2: true, version: wire.RevisionStateless},
	{name: "overlay/legacy", http: true, overlay: true, version: wire.RevisionLegacy},
	{name: "overlay/2026-07-28", http: true, overlay: true, version: wire.RevisionStateless},
}

// inEveryMode runs f in a bubble, once for each mode.
func inEveryMode(t *testing.T, f func(t *testing.T, m mode)) {
	for _, m := range modes {
		inBubble(t, m.name, func(t *testing.T) { f(t, m) })
	}
}

// inBubble runs f in a bubble as a test of its own.
func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// connect gives a client of g in mode m.
func (g *rig) connect(m mode, o HandlerOptions) client {
	g.t.Helper()
	if !m.http {
		return g.stdio(m)
	}
	front := g.front(m, o)
	return g.serve(m, bearer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerMethod) == wire.MethodPoll {
			g.polls.Add(1)
			defer g.polls.Add(-1)
		}
		front.ServeHTTP(w, r)
	})))
}

// NewOverlay is overlay.NewHandler, which this package cannot import. A file of the external test package sets it.
var NewOverlay func(es *server.Server, next http.Handler, o HandlerOptions) http.Handler

// front gives the handler of m. Next to the overlay is a server of the SDK with sessions.
func (g *rig) front(m mode, o HandlerOptions) http.Handler {
	if !m.overlay {
		return NewHandler(g.es, o)
	}
	next := mcp.NewServer(&mcp.Implementation{Name: "next", Version: "1"}, nil)
	mcp.AddTool(next, &mcp.Tool{Name: "theirs"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	g.next = next
	g.t.Cleanup(func() {
		for ss := range next.Sessions() {
			ss.Close()
		}
	})
	get := func(*http.Request) *mcp.Server { return next }
	legacy, modern := mcp.NewStreamableHTTPHandler(get, o.Streamable), mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
	return NewOverlay(g.es, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerVersion) >= wire.RevisionStateless {
			modern.ServeHTTP(w, r)
		} else {
			legacy.ServeHTTP(w, r)
		}
	}), o)
}

// A web is an HTTP server on a network in memory, so that it can be in a bubble.
type web struct {
	*http.Server
	URL       string
	transport *http.Transport
}

// Client gives a client that the server is all the world to.
func (w *web) Client() *http.Client { return &http.Client{Transport: w.transport} }

// onLoopback has the connections say that they came by loopback, which their host is then held against.
type onLoopback struct{ *memnet.Network }

func (l onLoopback) Accept() (net.Conn, error) {
	c, err := l.Network.Accept()
	return localConn{c, l.Addr()}, err
}

type localConn struct {
	net.Conn
	local net.Addr
}

func (c localConn) LocalAddr() net.Addr { return c.local }

// listen serves h until the test ends.
func (g *rig) listen(m mode, h http.Handler, settings ...func(*http.Server)) *web {
	l := memnet.New()
	w := &web{&http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}, "http://127.0.0.1/mcp",
		&http.Transport{DialContext: l.DialContext}}
	if m.h2 {
		w.Protocols, w.transport.Protocols = new(http.Protocols), new(http.Protocols)
		w.Protocols.SetUnencryptedHTTP2(true)
		w.transport.Protocols.SetUnencryptedHTTP2(true)
		w.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2000}
	}
	for _, set := range settings {
		set(w.Server)
	}
	served := make(chan struct{})
	go func() { w.Serve(onLoopback{l}); close(served) }()
	g.t.Cleanup(func() {
		g.stop()
		w.transport.CloseIdleConnections()
		w.Close()
		<-served
		w.transport.CloseIdleConnections()
	})
	return w
}

// serve gives a client of h.
func (g *rig) serve(m mode, h http.Handler, settings ...func(*http.Server)) *httpClient {
	w := g.listen(m, h, settings...)
	return g.dial(m, w.URL, w.Client())
}

// dial gives an HTTP client, with a session in the legacy revisions.
func (g *rig) dial(m mode, url string, hc *http.Client) *httpClient {
	g.t.Helper()
	c := &httpClient{t: g.t, url: url, hc: hc, mode: m, header: http.Header{}}
	c.header.Set("Authorization", "Bearer alice")
	if !m.modern() {
		c.header.Set(headerVersion, m.version)
		resp := c.post(context.Background(), initializeRequest(m.version), nil)
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		c.header.Set("Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"))
		resp = c.post(context.Background(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
		resp.Body.Close()
	}
	return c
}

// stdio gives a client on pipes, served by Run until the test ends.
func (g *rig) stdio(m mode) *lineClient {
	g.t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() {
		ran <- run(ctx, g.srv, port.Of(g.es), &mcp.IOTransport{Reader: inR, Writer: outW})
		outW.Close()
	}()
	c := &lineClient{t: g.t, mode: m, w: inW, r: outR, cancel: cancel, ran: ran, feeds: map[string]*feed{}, closed: make(chan struct{})}
	go c.read()
	g.t.Cleanup(func() {
		cancel()
		<-c.closed
		<-ran
	})
	if !m.modern() {
		c.rpc("0", methodInitialize, strings.TrimSuffix(strings.SplitN(initializeRequest(m.version), `"params":`, 2)[1], "}"))
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return c
}

func initializeRequest(version string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
}

// bearer authenticates: the token is the user, "expires:<duration>" after a colon its life.
func bearer(next http.Handler) http.Handler {
	return auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		user, life, _ := strings.Cut(token, ":")
		d := time.Hour
		if life != "" {
			d, _ = time.ParseDuration(life)
		}
		if user == "nobody" {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(d)}, nil
	}, nil)(next)
}

// addTool registers a further tool, which the SDK notifies about.
func (g *rig) addTool(name string) {
	srv := g.srv
	if g.next != nil {
		srv = g.next
	}
	mcp.AddTool(srv, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
}

// message returns the JSON-RPC message of the answer: its body, or the last event of its events.
func (r *recorder) message() []byte {
	if mediaType(r.header.Get("Content-Type")) != sse.ContentType {
		return r.body.Bytes()
	}
	var last []byte
	for line := range bytes.Lines(r.body.Bytes()) {
		if data, ok := bytes.CutPrefix(line, []byte(sse.Head)); ok {
			last = bytes.TrimRight(data, "\r\n")
		}
	}
	return last
}

// Flush makes the recorder a writer that can carry streams.
func (r *recorder) Flush() {}

// resumable are options under which the SDK keeps what it has sent.
func resumable() *mcp.StreamableHTTPOptions {
	return &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}
}
