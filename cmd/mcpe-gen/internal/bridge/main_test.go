package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

func TestMain(m *testing.M) {
	if act := os.Getenv(actVar); act != "" {
		os.Exit(runAct(act))
	}
	goleak.VerifyTestMain(m)
}

// A run is what a test emits: the run of a CI.
type run struct {
	Branch string `json:"branch"`
	N      int    `json:"n"`
	Text   string `json:"text,omitempty"`
}

type runArguments struct {
	Branch string `json:"branch,omitempty"`
}

// A house is a server of events in memory, to which bridges connect.
type house struct {
	t    *testing.T
	mcp  *mcp.Server
	es   *server.Server
	done *server.Emitter[run] // of ci.done
	down atomic.Bool
	ends sync.WaitGroup
	meet memory
}

// A memory is where bridges of one process meet.
type memory struct {
	mu  sync.Mutex
	all map[string]*memnet.Network
}

func (m *memory) listen(dir string) (net.Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]*memnet.Network{}
	}
	m.all[dir] = memnet.New()
	return m.all[dir], nil
}

func (m *memory) dial(ctx context.Context, dir string) (net.Conn, error) {
	m.mu.Lock()
	n := m.all[dir]
	m.mu.Unlock()
	if n == nil {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	return n.DialContext(ctx, "", "")
}

const doneSchema = `{"type":"object","properties":{"branch":{"type":"string"},"n":{"type":"integer"},"text":{"type":"string"}},"required":["branch","n"]}`

func typeOf(name string, coalesce *wire.Coalesce) events.Type[runArguments, run] {
	t := events.Type[runArguments, run]{Info: events.Info{Name: name, Description: "A run ended.", Match: []events.MatchRule{{Argument: "branch", Path: "/branch", Op: events.MatchEqual}},
		InputSchema:   json.RawMessage(`{"type":"object","properties":{"branch":{"type":"string"}},"additionalProperties":false}`),
		PayloadSchema: json.RawMessage(doneSchema)}}
	if coalesce != nil {
		t.Meta = map[string]any{wire.MetaCoalesce: coalesce}
	}
	return t
}

func newHouse(t *testing.T, coalesce *wire.Coalesce) *house {
	h := &house{t: t, mcp: mcp.NewServer(&mcp.Implementation{Name: "ci", Version: "1"}, nil)}
	var err error
	if h.es, err = server.New(h.mcp, server.Options{Logger: slog.New(slog.DiscardHandler), Operators: operators.New()}); err != nil {
		t.Fatal(err)
	}
	if h.done, err = server.Register(h.es, typeOf("ci.done", coalesce), server.Hooks[runArguments, run]{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.es.Shutdown(context.Background())
		h.ends.Wait()
	})
	return h
}

func (h *house) emit(branch string, n ...int) {
	h.t.Helper()
	for _, i := range n {
		if err := h.done.Emit(h.t.Context(), run{Branch: branch, N: i}, events.WithID(fmt.Sprint(branch, i))); err != nil {
			h.t.Fatal(err)
		}
	}
}

// dial connects a bridge.
func (h *house) dial(ctx context.Context, _ peer.Target, o client.Options) (*client.Client, error) {
	o.Logger = slog.New(slog.DiscardHandler)
	return client.Connect(ctx, client.Dial(func(context.Context) (mcp.Transport, error) {
		if h.down.Load() {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		ours, theirs := mcp.NewInMemoryTransports()
		h.ends.Go(func() { transport.Run(context.Background(), h.es, theirs) })
		return ours, nil
	}), o)
}

// A bridged is a bridge that runs, with an agent.
type bridged struct {
	t       *testing.T
	session *mcp.ClientSession
	cancel  context.CancelFunc
	done    chan error
	said    *said

	mu      sync.Mutex
	reports []float64 // of progress
}

// progress is what was reported.
func (b *bridged) progress() []float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.reports)
}

// said is what the bridge has printed for a person.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A tap is the agent's transport, which shows what is not of the SDK.
type tap struct {
	mcp.Transport
	other func(method string, params json.RawMessage)
}

type tapped struct {
	mcp.Connection
	other func(method string, params json.RawMessage)
}

func (t *tap) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	return &tapped{c, t.other}, err
}

func (c *tapped) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.Connection.Read(ctx)
		if req, ok := msg.(*jsonrpc.Request); ok && strings.HasPrefix(req.Method, "notifications/claude") {
			c.other(req.Method, req.Params)
			continue
		}
		return msg, err
	}
}

// start starts a bridge with an agent. Its configuration has the server ci.
func (h *house) start(dir string, change func(*config.Config), other func(method string, params json.RawMessage)) *bridged {
	h.t.Helper()
	c := config.New()
	c.Servers = []config.Server{{Name: "ci", Target: peer.Target{URL: "http://ci.example.com/mcp"}}}
	if change != nil {
		change(c)
	}
	return startBridge(h.t, Options{Config: c, State: dir, dial: h.dial, meet: &h.meet}, other)
}

func startBridge(t *testing.T, o Options, other func(method string, params json.RawMessage)) *bridged {
	t.Helper()
	toBridge, fromAgent := io.Pipe()
	toAgent, fromBridge := io.Pipe()
	b := &bridged{t: t, done: make(chan error, 1), said: &said{}}
	o.Stdin, o.Stdout, o.Stderr = toBridge, fromBridge, b.said
	var ctx context.Context
	ctx, b.cancel = context.WithCancel(t.Context())
	go func() {
		err := Run(ctx, o)
		fromBridge.Close()
		toBridge.Close()
		b.done <- err
	}()
	if other == nil {
		other = func(method string, _ json.RawMessage) { t.Errorf("the agent got %s", method) }
	}
	agent := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{Logger: slog.New(slog.DiscardHandler),
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.reports = append(b.reports, r.Params.Progress)
		}})
	var err error
	if b.session, err = agent.Connect(ctx, &tap{&mcp.IOTransport{Reader: toAgent, Writer: fromAgent}, other}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}); err != nil {
		b.cancel()
		t.Fatal(err, <-b.done, b.said)
	}
	t.Cleanup(b.cancel)
	return b
}

// end is the agent's end.
func (b *bridged) end() {
	b.t.Helper()
	b.session.Close()
	if err := <-b.done; err != nil {
		b.t.Fatal(err)
	}
	b.cancel()
}

// call calls a tool and decodes its result; the text of one that failed is the error.
func (b *bridged) call(name string, args map[string]any, result any) error {
	b.t.Helper()
	return b.callContext(b.t.Context(), name, args, result)
}

func (b *bridged) callContext(ctx context.Context, name string, args map[string]any, result any) error {
	b.t.Helper()
	res, err := b.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return err
	}
	text := res.Content[0].(*mcp.TextContent).Text
	if res.IsError {
		return errors.New(text)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal([]byte(text), result)
}

// wait calls events_wait and returns the eventIds of its batches.
func (b *bridged) wait(seconds int, more ...any) (all []string) {
	b.t.Helper()
	args := map[string]any{"waitSeconds": seconds}
	for pair := range slices.Chunk(more, 2) {
		args[pair[0].(string)] = pair[1]
	}
	var r inboxResult
	if err := b.call("events_wait", args, &r); err != nil {
		b.t.Fatal(err)
	}
	return idsOf(r)
}

func idsOf(r inboxResult) (all []string) {
	for _, batch := range r.Batches {
		for _, e := range batch.Events {
			all = append(all, e.ID)
		}
	}
	return all
}

func (b *bridged) subscriptions() (rows []subscriptionRow) {
	b.t.Helper()
	var r struct{ Subscriptions []subscriptionRow }
	if err := b.call("events_subscriptions", nil, &r); err != nil {
		b.t.Fatal(err)
	}
	return r.Subscriptions
}

func want[T comparable](t *testing.T, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
}

// ofDone is a configuration with a subscription to ci.done.
func ofDone(c *config.Config) {
	if err := c.Add("ci", "ci.done"); err != nil {
		panic(err)
	}
}

// settled waits until nothing moves, and a little longer for what is due at once.
func settled() {
	time.Sleep(time.Second)
	synctest.Wait()
}
