package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"))
}

type tick struct {
	Seq int `json:"seq"`
}

// origin is the server that the relay receives from.
type origin struct {
	t     *testing.T
	es    *server.Server
	ticks *server.Emitter[tick]
	url   string
	// cert and key are files that the origin trusts as the relay's.
	cert, key string
}

func newOrigin(t *testing.T) *origin {
	o := &origin{t: t}
	roots := o.certificate()
	srv := mcp.NewServer(&mcp.Implementation{Name: "origin", Version: "1"}, nil)
	var err error
	o.es, err = server.New(srv, server.Options{Operators: operators.New(), Store: memory.New(), Logger: slog.New(slog.DiscardHandler),
		Principal: func(context.Context, *mcp.RequestExtra) string { return "relay" },
		Webhooks:  webhooks.New(webhooks.Options{Callbacks: callbacks.Options{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, TLS: &tls.Config{RootCAs: roots}}})})
	if err != nil {
		t.Fatal(err)
	}
	o.ticks, err = server.Register(o.es, events.Type[json.RawMessage, tick]{Info: events.Info{Name: "tick", Description: "A tick.",
		InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object","properties":{"seq":{"type":"integer"}}}`)}}, server.Hooks[json.RawMessage, tick]{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(transport.NewHandler(o.es, transport.HandlerOptions{}))
	o.url = web.URL
	t.Cleanup(func() {
		if err := o.es.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	return o
}

// certificate writes the test certificate of net/http, which is valid for 127.0.0.1.
func (o *origin) certificate() *x509.CertPool {
	web := httptest.NewTLSServer(http.NotFoundHandler())
	defer web.Close()
	pair := web.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		o.t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(o.t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			o.t.Fatal(err)
		}
		return path
	}
	o.cert, o.key = write("cert.pem", "CERTIFICATE", pair.Certificate[0]), write("key.pem", "PRIVATE KEY", key)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	return roots
}

func (o *origin) emit(from, to int) {
	o.t.Helper()
	for i := from; i <= to; i++ {
		at := time.Date(2026, 11, 20, 8, 0, i, 5000, time.FixedZone("", 5*3600+1800))
		if err := o.ticks.Emit(o.t.Context(), tick{i}, events.WithID(fmt.Sprint("e", i)), events.WithTimestamp(at)); err != nil {
			o.t.Fatal(err)
		}
	}
}

// A running is a relay in this process.
type running struct {
	t    *testing.T
	url  string
	stop func()
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

// start runs a relay whose clients connect to url.
func (o *origin) start(db string, argv ...string) *running {
	o.t.Helper()
	opts, err := parse(append([]string{"-upstream", o.url, "-listen", "127.0.0.1:0", "-tls-cert", o.cert, "-tls-key", o.key,
		"-http", "127.0.0.1:0", "-db", db, "-interval", "20ms"}, argv...), io.Discard)
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out := &output{grown: make(chan struct{}, 1)}
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, opts, out) }()
	r := &running{t: o.t, stop: sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil { // such as a shutdown that did not come to an end
			o.t.Error(err)
		}
	})}
	o.t.Cleanup(r.stop)
	out.wait(o.t, "subscribed to tick by webhook")
	r.url = listening.FindStringSubmatch(out.String())[1] + "/mcp"
	return r
}

// output is what a relay writes.
type output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	grown chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.grown <- struct{}{}:
	default:
	}
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (o *output) wait(t *testing.T, text string) {
	t.Helper()
	limit := time.After(time.Minute)
	for !strings.Contains(o.String(), text) {
		select {
		case <-o.grown:
		case <-limit:
			t.Fatalf("no %q in\n%s", text, o)
		}
	}
}

// A consumer is a client of a relay; it writes an item as a word.
type consumer struct {
	t   *testing.T
	sub *client.TypedSubscription[json.RawMessage, tick]
	got chan string
}

func (r *running) consume(mode string, o ...client.SubscribeOption) *consumer {
	r.t.Helper()
	c, err := client.Connect(r.t.Context(), client.HTTP(r.url, &http.Client{Transport: http.DefaultTransport}), client.Options{Mode: mode, PollFloor: 10 * time.Millisecond})
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := client.Subscribe(r.t.Context(), c, events.Type[json.RawMessage, tick]{Info: events.Info{Name: "tick"}}, nil, o...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	out := &consumer{t: r.t, sub: s, got: make(chan string, 1000)}
	go func() {
		defer close(out.got)
		for ev, err := range s.Events() {
			switch {
			case errors.As(err, new(*client.GapError)):
				out.got <- "gap"
			case err != nil:
				out.got <- err.Error()
			default:
				out.got <- fmt.Sprintf("%s %s %s", ev.ID, ev.Timestamp, ev.Raw)
			}
		}
	}()
	return out
}

// cursor is a position that is not after what was read.
func (c *consumer) cursor() string {
	for range 500 {
		if cursor := c.sub.Subscription().Cursor(); cursor != "" {
			return cursor
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("no cursor")
	return ""
}

func word(i int) string {
	return fmt.Sprintf(`e%d 2026-11-20T08:00:%02d.000005+05:30 {"seq":%d}`, i, i, i)
}

func (c *consumer) want(words ...string) {
	c.t.Helper()
	for _, w := range words {
		select {
		case got := <-c.got:
			if got != w {
				c.t.Fatalf("got %q, want %q", got, w)
			}
		case <-time.After(time.Minute):
			c.t.Fatalf("nothing, want %q", w)
		}
	}
}

// wantAfterTicks wants w after events that may repeat: a poll's cursor stands before the batch that is under way.
func (c *consumer) wantAfterTicks(w string) {
	c.t.Helper()
	for {
		select {
		case got := <-c.got:
			if got == w {
				return
			}
			if !strings.HasPrefix(got, "e") {
				c.t.Fatalf("got %q, want %q", got, w)
			}
		case <-time.After(time.Minute):
			c.t.Fatalf("nothing, want %q", w)
		}
	}
}

// wantAll reads the events from one number to another in any order: webhooks keep none.
func (c *consumer) wantAll(from, to int) (order []string) {
	c.t.Helper()
	var want []string
	for i := from; i <= to; i++ {
		want = append(want, word(i))
		select {
		case got := <-c.got:
			order = append(order, got)
		case <-time.After(time.Minute):
			c.t.Fatalf("nothing after %q", order)
		}
	}
	got := slices.Sorted(slices.Values(order))
	if slices.Sort(want); !slices.Equal(got, want) {
		c.t.Fatalf("got %q, want %q", got, want)
	}
	return order
}

// both wants the same events of two consumers, in the same order: that of the relay's log.
func both(push, poll *consumer, from, to int) {
	push.t.Helper()
	if a, b := push.wantAll(from, to), poll.wantAll(from, to); !slices.Equal(a, b) {
		push.t.Errorf("push %q, poll %q", a, b)
	}
}

// CLI-11: what the upstream delivers by webhook is served on by poll and push with eventId, timestamp
// and data unchanged, over a restart of the relay without loss; a gap is a gap for every client, and
// a termination ends them with its reason. The verification of the relay's own callback goes no
// further (D11).
func TestCLI11Relay(t *testing.T) {
	o := newOrigin(t)
	db := filepath.Join(t.TempDir(), "relay.db")
	r := o.start(db)
	push, poll := r.consume("push"), r.consume("poll")
	start := poll.cursor()
	o.emit(1, 8)
	both(push, poll, 1, 8)

	r.stop()
	o.emit(9, 16) // while the relay is away
	r = o.start(db)
	push, poll = r.consume("push", client.WithCursor(start)), r.consume("poll", client.WithCursor(start))
	both(push, poll, 1, 8)
	both(push, poll, 9, 16)

	if _, err := o.es.Admin().RaiseGap(t.Context(), operator.Target{Event: "tick"}); err != nil {
		t.Fatal(err)
	}
	push.want("gap")
	poll.want("gap")
	o.emit(17, 20)
	both(push, poll, 17, 20)
	late := r.consume("poll", client.WithCursor(poll.cursor()))

	if _, err := o.es.Admin().Terminate(t.Context(), operator.Target{Event: "tick"}, events.Forbidden("closed")); err != nil {
		t.Fatal(err)
	}
	const terminated = `client: subscription to tick terminated: Forbidden {"reason":"closed"}`
	push.want(terminated)
	poll.want(terminated)
	late.wantAfterTicks(terminated)
}

// CLI-11: the log keeps texts as they came, tells each gap once whatever the pages, and takes no event twice.
func TestCLI11Log(t *testing.T) {
	ctx := t.Context()
	db := memory.New()
	l, err := openLog(ctx, db, "k", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := l.page(ctx, "")
	at, err := events.ParseTime("2026-11-20T08:00:00.500000z")
	if err != nil {
		t.Fatal(err)
	}
	put := func(id string) {
		t.Helper()
		if err := l.append(ctx, store.Entry{EventID: id, Timestamp: at, Data: json.RawMessage(`{"n":1.0}`)}); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	put("b")
	put("a")
	if err := l.appendGap(ctx); err != nil {
		t.Fatal(err)
	}
	if l, err = openLog(ctx, db, "k", time.Hour); err != nil {
		t.Fatal(err)
	}
	put("b")
	put("c")
	read := func(cursor string) (got []string) {
		for range 10 {
			p, err := l.page(ctx, cursor)
			if err != nil {
				t.Fatal(err)
			}
			if p.Truncated {
				got = append(got, "gap")
			}
			for _, it := range p.Items {
				if it.TimestampText != "2026-11-20T08:00:00.500000z" || string(it.Data) != `{"n":1.0}` {
					t.Errorf("changed: %+v", it)
				}
				got = append(got, it.ID)
			}
			cursor = p.Cursor
			if !p.HasMore {
				break
			}
		}
		return got
	}
	cursorAt := func(p store.Position, change uint32) string { // at another entry with a change
		proof, err := l.log.Proof(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x.%d.%x", l.log.Epoch(), p, proof^change)
	}
	for cursor, want := range map[string]string{first.Cursor: "a b gap c", "nonsense": "gap a b gap c", cursorAt(2, 0): "gap c", cursorAt(3, 0): "c", cursorAt(99, 0): "gap a b gap c",
		cursorAt(3, 1): "gap a b gap c", fmt.Sprintf("%x.%d", l.log.Epoch(), 3): "c"} {
		if got := strings.Join(read(cursor), " "); got != want {
			t.Errorf("from %s: %s, want %s", cursor, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	for argv, want := range map[string]string{
		"":                                             "-upstream is missing",
		"-upstream u":                                  "-listen is missing",
		"-upstream u -listen :0 -tls-cert c":           "-tls-cert and -tls-key go together",
		"-upstream u -listen :0 -event a?b=%":          "invalid URL escape",
		"-upstream u -listen :0 -event ?b=c":           "want NAME",
		"-upstream u -listen :0 -keep -1s":             "must be positive",
		"-upstream u -listen :0 -event a -event a?b=c": "given twice",
		"-upstream u -listen :0 more":                  "unexpected argument",
	} {
		if _, err := parse(strings.Fields(argv), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", argv, err, want)
		}
	}
	o, err := parse(strings.Fields("-upstream u -listen :0 -event a.b?x=1&y=z"), io.Discard)
	if err != nil || o.selections[0].event != "a.b" {
		t.Fatalf("%+v, %v", o.selections, err)
	}
	args, err := arguments(o.selections[0].args, json.RawMessage(`{"properties":{"x":{"type":"integer"}}}`))
	if err != nil || string(args) != `{"x":1,"y":"z"}` {
		t.Errorf("%s, %v", args, err)
	}
}

// V9: an eventId that fits no header is replaced by one that does, always the same.
func TestRelayedID(t *testing.T) {
	for id, want := range map[string]string{
		"evt_1~": "evt_1~",
		"a b":    "sha256-c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c2034ae8c38e6fcc6d65",
		"ü":      "sha256-607474ca475a9724d7360aba71a56d5df77e61350e3f724cfa1f46e857e2d85f",
	} {
		if got := relayedID(id); got != want {
			t.Errorf("%q: %q", id, got)
		}
	}
}
