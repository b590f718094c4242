package delivery

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
)

// withPostgres are the tests and benchmarks, which may have started a PostgreSQL.
type withPostgres struct{ *testing.M }

func (m withPostgres) Run() int { return pgtest.Main(m.M) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(withPostgres{m}) }

// A topic is a log with parked readers, as a server has it.
type topic struct {
	log   *memory.Log
	reads atomic.Int64 // entries handed out
	mu    sync.Mutex
	head  store.Position
	all   map[*view]struct{}
	track *Log
	lanes []*Log // of shards
}

func newTopic(o store.LogOptions) *topic {
	t := &topic{all: map[*view]struct{}{}}
	o.Appended = t.appended
	t.log = memory.NewLog(o)
	return t
}

func (t *topic) appended(entries []store.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range entries {
		t.head = e.Position
		for v := range t.all {
			if v.parked && v.first == 0 && v.matches(e) {
				v.first = e.Position
				v.h.Wake()
			}
		}
	}
	if t.track != nil {
		t.track.Advanced()
	}
	for _, l := range t.lanes {
		l.Advanced()
	}
}

func (t *topic) Head() store.Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head
}

// emit appends an event with that id, for the subscriptions given or for all.
func (t *topic) emit(tb testing.TB, id string, targets ...string) store.Position {
	tb.Helper()
	p, err := t.log.Append(context.Background(), store.Entry{EventID: id, Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{}`), Targets: targets})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// A view is one subscription's Reader.
type view struct {
	t      *topic
	id     string
	closed atomic.Bool
	bad    func(store.Entry) bool // cannot be encoded
	fail   atomic.Bool            // reads fail
	fails  atomic.Int64           // how many did
	// called is called with the name of a method before it returns, by Read only if it found something.
	called atomic.Pointer[func(method string)]

	h      *Handle // under t.mu, and so below
	parked bool
	pos    store.Position
	first  store.Position
}

func (v *view) matches(e store.Entry) bool {
	if e.Targets == nil {
		return true
	}
	for _, id := range e.Targets {
		if id == v.id {
			return true
		}
	}
	return false
}

var errLog = errors.New("the log is away")

func (v *view) Read(ctx context.Context, after store.Position, limit int) (Found, error) {
	if v.fail.Load() {
		v.fails.Add(1)
		return Found{}, errLog
	}
	b, err := v.t.log.Read(ctx, after, 32)
	if err != nil {
		return Found{}, err
	}
	if b.Gap {
		return Found{Gap: true, Upto: b.Oldest - 1}, nil
	}
	f := Found{Upto: after}
	for _, e := range b.Entries {
		if len(f.Items) == limit {
			break
		}
		v.t.reads.Add(1)
		f.Upto = e.Position
		if v.matches(e) {
			it := Item{Position: e.Position, EventID: e.EventID, Body: func(cursor *string) ([]byte, error) {
				return webhook.Occurrence{EventID: e.EventID, Name: "test", Timestamp: e.Timestamp.String(), Data: e.Data}.Body(cursor)
			}}
			if v.bad != nil && v.bad(e) {
				it.Body = nil
			}
			f.Items = append(f.Items, it)
		}
	}
	f.More = f.Upto < b.Head
	if len(f.Items) > 0 {
		v.call("Read")
	}
	return f, nil
}

func (v *view) call(method string) {
	if called := v.called.Load(); called != nil {
		(*called)(method)
	}
}

func (v *view) Park(after store.Position) bool {
	defer v.call("Park")
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	if v.t.head > after {
		return false
	}
	v.pos, v.first, v.parked = after, 0, true
	return true
}

func (v *view) Unpark() store.Position {
	defer v.call("Unpark")
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	p := v.passed()
	v.parked, v.first = false, 0
	return p
}

func (v *view) Passed() store.Position {
	defer v.call("Passed")
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	return v.passed()
}

func (v *view) passed() store.Position {
	switch {
	case !v.parked:
		return 0
	case v.first > 0:
		return v.first - 1
	default:
		return max(v.pos, v.t.head)
	}
}

func (v *view) Cursor(p store.Position) *string {
	c := fmt.Sprint("c", uint64(p))
	return &c
}

func (v *view) Close() {
	v.closed.Store(true)
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	delete(v.t.all, v)
}

var (
	oldKey = bytes.Repeat([]byte{1}, 32)
	newKey = bytes.Repeat([]byte{2}, 32)
)

// record is a subscription that expires in an hour.
func record(id string) store.Subscription {
	now := time.Now()
	return store.Subscription{ID: id, Principal: "p", URL: "http://receiver.test/hooks/" + id, Event: "test", Generation: 1,
		Secrets: []store.Secret{{Key: oldKey}}, CreatedAt: now, RefreshedAt: now, ExpiresAt: now.Add(time.Hour)}
}

// join adds a subscription to the engine; one that is not restored was stored a moment ago, as open.
func (t *topic) join(tb testing.TB, e *Engine, s store.Subscription, restored bool) (*Handle, *view) {
	tb.Helper()
	s.Progress.Open = s.Progress.Open || !restored
	return t.attend(tb, e, Entry{Subscription: s})
}

// attend adds the entry's subscription to the engine.
func (t *topic) attend(tb testing.TB, e *Engine, n Entry) (*Handle, *view) {
	tb.Helper()
	v := &view{t: t, id: n.Subscription.ID}
	t.mu.Lock()
	t.all[v] = struct{}{}
	log := t.track
	t.mu.Unlock()
	n.Reader, n.Shard, n.Log = v, e.whole, log
	n.Begin = func(h *Handle) {
		t.mu.Lock()
		v.h = h
		t.mu.Unlock()
	}
	h, err := e.Add(context.Background(), n)
	if err != nil {
		tb.Fatal(err)
	}
	return h, v
}

// A got is one request that came to the sender.
type got struct {
	at      time.Time
	url     string
	id      string // webhook-id
	sub     string
	body    []byte
	header  http.Header
	cursor  string
	kind    string // of an envelope
	attempt int    // 1 for the first of this id and subscription
}

// A script answers requests without any network.
type script struct {
	answer func(ctx context.Context, g got) (status int, header http.Header, err error)

	mu   sync.Mutex
	gots []got
	seen map[string]int
}

func (s *script) Send(ctx context.Context, r netguard.Request) (*netguard.Answer, error) {
	g := got{at: time.Now(), url: r.URL, id: r.Header.Get(wire.HeaderWebhookID), sub: r.Header.Get(wire.HeaderSubscriptionID), body: r.Body, header: r.Header}
	var head struct {
		Type   string
		Cursor string
	}
	if err := json.Unmarshal(r.Body, &head); err != nil {
		return nil, err
	}
	g.cursor, g.kind = head.Cursor, head.Type
	s.mu.Lock()
	if s.seen == nil {
		s.seen = map[string]int{}
	}
	s.seen[g.sub+" "+g.id]++
	g.attempt = s.seen[g.sub+" "+g.id]
	s.gots = append(s.gots, g)
	s.mu.Unlock()
	if s.answer == nil {
		return &netguard.Answer{Status: 204}, nil
	}
	status, header, err := s.answer(ctx, g)
	if err != nil {
		return nil, err
	}
	return &netguard.Answer{Status: status, Header: header}, nil
}

func (s *script) all() []got {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]got(nil), s.gots...)
}

func (s *script) count(sub string) int {
	n := 0
	for _, g := range s.all() {
		if g.sub == sub {
			n++
		}
	}
	return n
}

// quietLog drops lines.
var quietLog = slog.New(slog.DiscardHandler)

// newEngine makes an engine. All that is added by join is in its whole, which keeps progress in db, or in a store of
// its own.
func newEngine(tb testing.TB, o Options, db ...engine.Owned) *Engine {
	tb.Helper()
	if o.Logger == nil {
		o.Logger = quietLog
	}
	if o.Jitter == 0 {
		o.Jitter = -1
	}
	e, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	e.whole.o = ShardOptions{Store: append(db, memory.New())[0], Undivided: true}
	return e
}

func shutdown(tb testing.TB, e *Engine) {
	tb.Helper()
	if err := e.Shutdown(context.Background()); err != nil {
		tb.Error(err)
	}
}

// A network is in memory: each port leads to a server over a pipe, whatever the name.
type network struct {
	mu    sync.Mutex
	ports map[string]func(net.Conn)
	dials map[string]int
	conns sync.WaitGroup
}

func (n *network) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("198.51.100.1")}, nil
}

// listen serves a port by f, which owns the connection, and returns the origin.
func (n *network) listen(scheme, port string, f func(net.Conn)) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports == nil {
		n.ports, n.dials = map[string]func(net.Conn){}, map[string]int{}
	}
	n.ports[port] = f
	return scheme + "://receiver.test:" + port
}

func (n *network) dial(_ context.Context, _, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials[port]++
	f := n.ports[port]
	if f == nil {
		return nil, syscall.ECONNREFUSED
	}
	ours, theirs := memnet.Pipe()
	n.conns.Go(func() { f(theirs) })
	return ours, nil
}

// handle is a server of HTTP/1.1 for listen.
func handle(h http.HandlerFunc) func(net.Conn) {
	return func(c net.Conn) {
		defer c.Close()
		br := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			w := &answerWriter{header: http.Header{}}
			h(w, req)
			_, _ = io.Copy(io.Discard, req.Body)
			if err := w.send(c); err != nil {
				return
			}
		}
	}
}

type answerWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *answerWriter) Header() http.Header         { return w.header }
func (w *answerWriter) WriteHeader(s int)           { w.status = s }
func (w *answerWriter) Write(p []byte) (int, error) { return w.body.Write(p) }
func (w *answerWriter) send(c net.Conn) error {
	if w.status == 0 {
		w.status = 200
	}
	r := http.Response{StatusCode: w.status, ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len())}
	return r.Write(c)
}

// Progress is what is settled now, in the form that stores keep.
func (h *Handle) Progress() store.Progress {
	h.e.mu.Lock()
	h.advanceParked()
	p := h.progress()
	h.e.mu.Unlock()
	return h.withUpstream(p)
}

// unstored is the function that stores a replay where no record has it.
func unstored(*Replay) bool { return true }
