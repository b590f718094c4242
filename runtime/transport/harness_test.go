package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

var update = flag.Bool("update", false, "write the transcripts of testdata anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	// polls counts the events/poll calls under way, inside the SDK and in the handler around it.
	polls atomic.Int32
	// hold, when set, delays OnSubscribe until it is closed.
	hold chan struct{}
}

func newRig(t testing.TB, o server.Options) *rig {
	t.Helper()
	g := &rig{t: t, ended: make(chan string, 2000), opened: make(chan string, 2000)}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g.srv = mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(g.srv, &mcp.Tool{Name: "noop"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	var err error
	if g.es, err = server.New(g.srv, o); err != nil {
		t.Fatal(err)
	}
	g.srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == wire.MethodPoll {
				g.polls.Add(1)
				defer g.polls.Add(-1)
			}
			return next(ctx, method, req)
		}
	})
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

// --- carriers ---

// A mode is a way to reach the server.
type mode struct {
	name    string
	http    bool
	h2      bool
	version string
}

func (m mode) modern() bool { return m.version >= wire.RevisionStateless }

var modes = []mode{
	{"stdio/legacy", false, false, wire.RevisionLegacy},
	{"stdio/2026-07-28", false, false, wire.RevisionStateless},
	{"http1/legacy", true, false, wire.RevisionLegacy},
	{"http1/2026-07-28", true, false, wire.RevisionStateless},
	{"http2/legacy", true, true, wire.RevisionLegacy},
	{"http2/2026-07-28", true, true, wire.RevisionStateless},
}

// inEveryMode runs f over real sockets and pipes, once for each mode.
func inEveryMode(t *testing.T, f func(t *testing.T, m mode)) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) { f(t, m) })
	}
}

// connect gives a client of g in mode m.
func (g *rig) connect(m mode, o HandlerOptions) client {
	g.t.Helper()
	if !m.http {
		return g.stdio(m)
	}
	front := NewHandler(g.srv, g.es, o)
	ts := g.listen(m, bearer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerMethod) == wire.MethodPoll {
			g.polls.Add(1)
			defer g.polls.Add(-1)
		}
		front.ServeHTTP(w, r)
	})))
	return g.dial(m, ts.URL, ts.Client())
}

// listen serves h on a real socket until the test ends.
func (g *rig) listen(m mode, h http.Handler) *httptest.Server {
	ts := httptest.NewUnstartedServer(h)
	ts.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2000}
	if ts.EnableHTTP2 = m.h2; m.h2 {
		ts.StartTLS()
	} else {
		ts.Start()
	}
	g.t.Cleanup(func() {
		g.stop()
		ts.CloseClientConnections()
		ts.Close()
		ts.Client().CloseIdleConnections()
	})
	return ts
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
		ran <- Run(ctx, g.srv, g.es, &mcp.IOTransport{Reader: inR, Writer: outW})
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

// --- clients that see the wire ---

// A client speaks JSON-RPC with ids and params as the test wrote them.
type client interface {
	// rpc makes a call and returns its response.
	rpc(id, method, params string) envelope
	// stream sends events/stream; the feed gets every message for that id.
	stream(id, params string) *feed
	notify(method, params string)
}

// A feed is what arrives for one id.
type feed struct {
	t      testing.TB
	c      chan string // messages
	cancel func()
	ended  chan struct{} // the response is over (HTTP)
	// patient is how long to wait for a message; 0 means 5 seconds.
	patient time.Duration
}

// next waits for the next message.
func (f *feed) next() string {
	f.t.Helper()
	select {
	case m, ok := <-f.c:
		if !ok {
			f.t.Fatal("the stream has ended")
		}
		return m
	case <-time.After(max(f.patient, 5*time.Second)):
		f.t.Fatal("timeout: no message")
		panic("unreachable")
	}
}

// want1 waits for the next message, whatever it is.
func (f *feed) want1() envelope {
	f.t.Helper()
	env, _ := parseEnvelope([]byte(f.next()))
	return env
}

// want waits for a message of a method, "" being a response, and returns it.
func (f *feed) want(method string) envelope {
	f.t.Helper()
	m := f.next()
	env, ok := parseEnvelope([]byte(m))
	if !ok || env.method != method {
		f.t.Fatalf("got %s, want %q", m, method)
	}
	return env
}

// over waits until the response has ended and reports what came before.
func (f *feed) over() []string {
	f.t.Helper()
	select {
	case <-f.ended:
	case <-time.After(5 * time.Second):
		f.t.Fatal("timeout: the stream has not ended")
	}
	var rest []string
	for m := range f.c {
		rest = append(rest, m)
	}
	return rest
}

// requestMeta is the _meta of a stateless request.
const requestMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/events":{}}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}`

// request writes a request; params are an object's text, to which the stateless revision adds.
func (m mode) request(id, method, params string) string {
	if params == "" {
		params = "{}"
	}
	if m.modern() {
		sep := ","
		if strings.TrimSpace(params) == "{}" {
			sep = ""
		}
		params = strings.TrimSuffix(params, "}") + sep + requestMeta + "}"
	}
	if id == "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"%s","params":%s}`, method, params)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"%s","params":%s}`, id, method, params)
}

type httpClient struct {
	t      testing.TB
	url    string
	hc     *http.Client
	mode   mode
	header http.Header
}

// post sends a body with the client's headers; those of h replace them, "-" removes one.
func (c *httpClient) post(ctx context.Context, body string, h map[string]string) *http.Response {
	c.t.Helper()
	resp, err := c.do(ctx, http.MethodPost, body, h)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

func (c *httpClient) do(ctx context.Context, method, body string, h map[string]string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = c.header.Clone()
	req.Header.Set("Content-Type", contentTypeJSON)
	req.Header.Set("Accept", "application/json, text/event-stream")
	if env, ok := parseEnvelope([]byte(body)); ok && c.mode.modern() {
		req.Header.Set(headerVersion, c.mode.version)
		req.Header.Set(headerMethod, env.method)
	}
	for k, v := range h {
		switch {
		case v == "-":
			req.Header.Del(k)
		case k == "Host":
			req.Host = v
		default:
			req.Header.Set(k, v)
		}
	}
	return c.hc.Do(req)
}

func (c *httpClient) rpc(id, method, params string) envelope {
	c.t.Helper()
	resp := c.post(context.Background(), c.mode.request(id, method, params), nil)
	return readMessage(c.t, resp)
}

func (c *httpClient) notify(method, params string) {
	c.t.Helper()
	c.post(context.Background(), c.mode.request("", method, params), nil).Body.Close()
}

// readMessage returns the last JSON-RPC message of a response.
func readMessage(t testing.TB, resp *http.Response) envelope {
	t.Helper()
	defer resp.Body.Close()
	rec := newRecorder()
	rec.header = resp.Header
	if _, err := io.Copy(&rec.body, resp.Body); err != nil {
		t.Fatal(err)
	}
	env, ok := parseEnvelope(rec.message())
	if !ok {
		t.Fatalf("%s: no JSON-RPC message: %s", resp.Status, rec.body.Bytes())
	}
	return env
}

func (c *httpClient) stream(id, params string) *feed {
	c.t.Helper()
	return c.sse(c.mode.request(id, wire.MethodStream, params))
}

// sse sends a request and feeds the events of the response; a response that is no stream is fed as
// one message.
func (c *httpClient) sse(body string) *feed {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	resp := c.post(ctx, body, nil)
	return feedOf(c.t, resp, cancel)
}

func feedOf(t testing.TB, resp *http.Response, cancel func()) *feed {
	f := &feed{t: t, c: make(chan string, 5000), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		defer close(f.c)
		defer resp.Body.Close()
		defer cancel()
		r := bufio.NewReader(resp.Body)
		if mediaType(resp.Header.Get("Content-Type")) != contentTypeEvents {
			b, _ := io.ReadAll(r)
			f.c <- string(b)
			return
		}
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if data, ok := strings.CutPrefix(line, eventHead); ok {
				f.c <- strings.TrimRight(data, "\n")
			}
		}
	}()
	return f
}

type lineClient struct {
	t      testing.TB
	mode   mode
	w      io.WriteCloser
	r      io.Reader
	cancel context.CancelFunc
	ran    chan error
	closed chan struct{}

	mu    sync.Mutex
	feeds map[string]*feed // by raw id, and "" for what belongs to none
	all   []string
}

func (c *lineClient) read() {
	defer close(c.closed)
	r := bufio.NewReader(c.r)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			c.mu.Lock()
			for _, f := range c.feeds {
				close(f.c)
				close(f.ended)
			}
			c.feeds = map[string]*feed{}
			c.mu.Unlock()
			return
		}
		line = bytes.TrimSpace(line)
		env, _ := parseEnvelope(line)
		key := string(env.id)
		if env.id == nil {
			key = string(member(member(env.params, "_meta"), wire.MetaSubscriptionID))
		}
		c.mu.Lock()
		c.all = append(c.all, string(line))
		f := c.feeds[key]
		c.mu.Unlock()
		if f != nil {
			f.c <- string(line)
		}
	}
}

func (c *lineClient) send(message string) {
	c.t.Helper()
	if _, err := io.WriteString(c.w, message+"\n"); err != nil {
		c.t.Error(err)
	}
}

// feed gets what arrives for an id from now on.
func (c *lineClient) feed(id string) *feed {
	f := &feed{t: c.t, c: make(chan string, 5000), ended: make(chan struct{})}
	f.cancel = func() {
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	}
	c.mu.Lock()
	c.feeds[id] = f
	c.mu.Unlock()
	return f
}

func (c *lineClient) rpc(id, method, params string) envelope {
	c.t.Helper()
	f := c.feed(id)
	c.send(c.mode.request(id, method, params))
	return f.want("")
}

func (c *lineClient) notify(method, params string) {
	c.t.Helper()
	c.send(c.mode.request("", method, params))
}

func (c *lineClient) stream(id, params string) *feed {
	c.t.Helper()
	f := c.feed(id)
	c.send(c.mode.request(id, wire.MethodStream, params))
	return f
}

// --- HTTP within a synctest bubble ---

// A pipeListener hands out net.Pipe connections, which a bubble's clock understands.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.conns <- a:
		return b, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble serves h over pipes and gives a client; stop ends both, which a bubble needs before its
// function returns.
func (g *rig) bubble(m mode, h http.Handler, settings ...func(*http.Server)) (c *httpClient, stop func()) {
	l := newPipeListener()
	hs := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	tr := &http.Transport{DialContext: l.dial}
	if m.h2 {
		hs.Protocols, tr.Protocols = new(http.Protocols), new(http.Protocols)
		hs.Protocols.SetUnencryptedHTTP2(true)
		tr.Protocols.SetUnencryptedHTTP2(true)
	}
	for _, set := range settings {
		set(hs)
	}
	served := make(chan struct{})
	go func() { hs.Serve(l); close(served) }()
	stop = func() {
		g.stop()
		tr.CloseIdleConnections()
		hs.Close()
		<-served
		tr.CloseIdleConnections()
	}
	return g.dial(m, "http://pipe/mcp", &http.Client{Transport: tr}), stop
}
