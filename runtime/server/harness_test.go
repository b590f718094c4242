package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/testflag"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/streaming"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
)

// withPostgres are the tests, which may have started a PostgreSQL.
type withPostgres struct{ *testing.M }

func (m withPostgres) Run() int { return pgtest.Main(m.M) }

func TestMain(m *testing.M) {
	testflag.Parallel(4) // those of several processes on one store wait for leases
	goleak.VerifyTestMain(withPostgres{m})
}

// The event type of most tests: an incident with x-match on severity, service and others.
type filterArgs struct {
	Severity *string  `json:"severity,omitzero"`
	Service  *string  `json:"service,omitzero"`
	Any      []string `json:"any,omitzero"`
	MinLevel *float64 `json:"minLevel,omitzero"`
	Tag      *string  `json:"tag,omitzero"`
	Prefix   *string  `json:"prefix,omitzero"`
	Redact   bool     `json:"redact,omitzero"`
}

type incident struct {
	ID       string   `json:"id"`
	Severity string   `json:"severity,omitzero"`
	Service  string   `json:"service,omitzero"`
	Level    float64  `json:"level,omitzero"`
	Tags     []string `json:"tags,omitzero"`
	Secret   string   `json:"secret,omitzero"`
}

const (
	filterSchema = `{"type":"object","properties":{"severity":{"type":"string","enum":["P1","P2","P3"]},"service":{"type":"string"},` +
		`"any":{"type":"array","items":{"type":"string"}},"minLevel":{"type":"number"},"tag":{"type":"string"},"prefix":{"type":"string"},"redact":{"type":"boolean"}},"additionalProperties":false}`
	incidentSchema = `{"type":"object","properties":{"id":{"type":"string"},"severity":{"type":"string"},"service":{"type":"string"},` +
		`"level":{"type":"number"},"tags":{"type":"array","items":{"type":"string"}},"secret":{"type":"string","maxLength":20}},"required":["id"]}`
)

var filterRules = []events.MatchRule{
	{Argument: "severity", Path: "/severity"},
	{Argument: "service", Path: "/service", Op: events.MatchGlob},
	{Argument: "any", Path: "/severity", Op: events.MatchIn},
	{Argument: "minLevel", Path: "/level", Op: events.MatchMin},
	{Argument: "tag", Path: "/tags"},
	{Argument: "prefix", Path: "/id", Op: events.MatchPrefix},
}

func incidentType(name string) events.Type[filterArgs, incident] {
	return events.Type[filterArgs, incident]{Info: events.Info{Name: name, Description: "An incident.",
		InputSchema: json.RawMessage(filterSchema), PayloadSchema: json.RawMessage(incidentSchema), Match: filterRules}}
}

func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s, err := New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), o.withParts())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return s
}

func register(t testing.TB, s *Server, name string, h Hooks[filterArgs, incident], o ...TypeOption) *Emitter[incident] {
	t.Helper()
	e, err := Register(s, incidentType(name), h, o...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func emit(t testing.TB, e *Emitter[incident], i incident, o ...events.EmitOption) {
	t.Helper()
	if err := e.Emit(context.Background(), i, append([]events.EmitOption{events.WithID(i.ID)}, o...)...); err != nil {
		t.Fatal(err)
	}
}

// portAdapter is what carriers and adapters reach.
func (s *Server) inside() *port.Port { return s.port }

// call sends params, given as JSON, and decodes the result.
func call(s *Server, principal, method, params string) (json.RawMessage, *jsonrpc.Error) {
	res, err := s.inside().Call(context.Background(), port.Request{Method: method, Params: json.RawMessage(params), ID: json.RawMessage("1"),
		Principal: principal, Stateless: true, CanStream: true})
	if err != nil {
		return nil, err.(*jsonrpc.Error) // a bare one is part of the contract
	}
	return res, nil
}

func asRPC(err error) *jsonrpc.Error {
	e, _ := err.(*jsonrpc.Error)
	return e
}

type pollResult struct {
	ResultType string            `json:"resultType"`
	Events     []json.RawMessage `json:"events"`
	Cursor     *string           `json:"cursor"`
	Truncated  *bool             `json:"truncated"`
	HasMore    *bool             `json:"hasMore"`
	NextPollMs *int64            `json:"nextPollMs"`
}

func (r pollResult) ids() []string {
	ids := []string{}
	for _, e := range r.Events {
		var o wire.Occurrence
		json.Unmarshal(e, &o)
		ids = append(ids, o.EventID)
	}
	return ids
}

func poll(t testing.TB, s *Server, params string) pollResult {
	t.Helper()
	return pollAs(t, s, "", params)
}

func pollAs(t testing.TB, s *Server, principal, params string) pollResult {
	t.Helper()
	raw, rerr := call(s, principal, wire.MethodPoll, params)
	if rerr != nil {
		t.Fatalf("poll %s: %d %s %s", params, rerr.Code, rerr.Message, rerr.Data)
	}
	var r pollResult
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	if r.Events == nil || r.Truncated == nil || r.HasMore == nil || r.NextPollMs == nil {
		t.Fatalf("POLL-2: %s lacks a member", raw)
	}
	return r
}

// pollFrom polls the event "e" from a cursor with more members.
func pollFrom(t testing.TB, s *Server, cursor *string, more string) pollResult {
	t.Helper()
	c, _ := json.Marshal(cursor)
	return poll(t, s, fmt.Sprintf(`{"name":"e","cursor":%s%s}`, c, more))
}

func wantError(t testing.TB, got *jsonrpc.Error, code int64, data string) {
	t.Helper()
	if got == nil {
		t.Fatalf("no error, want %d %s", code, data)
	}
	if got.Code != code || data != "*" && string(got.Data) != data {
		t.Fatalf("got %d %s %s, want %d %s", got.Code, got.Message, got.Data, code, data)
	}
}

// written is one decoded notification.
type written struct {
	method string
	raw    string
	params struct {
		EventID   string          `json:"eventId"`
		Cursor    *string         `json:"cursor"`
		Truncated bool            `json:"truncated"`
		Data      json.RawMessage `json:"data"`
		Error     struct {
			Code    int64           `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
		Meta map[string]json.RawMessage `json:"_meta"`
	}
}

func (f written) short() string {
	s := strings.TrimPrefix(f.method, wire.NotificationPrefix)
	if f.params.EventID != "" {
		s += " " + f.params.EventID
	}
	return s
}

// recorder is a carrier that keeps what is written.
type recorder struct {
	id   string // of the request, as JSON
	mu   sync.Mutex
	got  []written
	bad  error
	gate func(n int, frames []frame.Frame) error // when not nil, asked before each Write
	n    int
}

func (c *recorder) Write(frames []frame.Frame) error {
	if c.gate != nil {
		if err := c.gate(c.n, frames); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	for _, f := range frames {
		raw := string(bytes.Join(f[:], nil))
		var m struct {
			JSONRPC string          `json:"jsonrpc"`
			Method  string          `json:"method"`
			Params  json.RawMessage `json:"params"`
		}
		var g written
		err := json.Unmarshal([]byte(raw), &m)
		if err == nil {
			err = json.Unmarshal(m.Params, &g.params)
		}
		var compact bytes.Buffer
		json.Compact(&compact, []byte(raw))
		switch {
		case err != nil:
		case m.JSONRPC != "2.0" || m.Method != f.Method() || string(m.Params) != string(f.Params()):
			err = fmt.Errorf("frame %s does not agree with Method %s and Params %s", raw, f.Method(), f.Params())
		case compact.String() != raw:
			err = fmt.Errorf("frame %s is not compact", raw)
		case !strings.HasSuffix(raw, `"`+wire.MetaSubscriptionID+`":`+c.id+`}}}`):
			err = fmt.Errorf("PUSH-2: frame %s does not end in the subscription id %s", raw, c.id)
		}
		if err != nil && c.bad == nil {
			c.bad = err
		}
		g.method, g.raw = m.Method, raw
		c.got = append(c.got, g)
	}
	return nil
}

func (c *recorder) frames() []written {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]written(nil), c.got...)
}

func (c *recorder) shorts() []string {
	out := []string{}
	for _, f := range c.frames() {
		out = append(out, f.short())
	}
	return out
}

func (c *recorder) ids() []string {
	out := []string{}
	for _, f := range c.frames() {
		if f.method == wire.NotificationEvent {
			out = append(out, f.params.EventID)
		}
	}
	return out
}

// live is a stream that runs.
type live struct {
	*recorder
	st     *streaming.Stream
	cancel context.CancelFunc
	done   chan struct{}
	final  json.RawMessage
	err    error
}

func openStream(s *Server, principal, params string) (*streaming.Stream, *jsonrpc.Error) {
	st, err := s.inside().Open(context.Background(), streamRequest(principal, params))
	if err != nil {
		return nil, err.(*jsonrpc.Error)
	}
	return st.(*streaming.Stream), nil
}

// opened looks into what Open returns.
func opened(s port.Stream, err error) (*streaming.Stream, error) {
	st, _ := s.(*streaming.Stream)
	return st, err
}

// streamID is the id of streams' requests.
const streamID = "8"

func streamRequest(principal, params string) port.Request {
	return port.Request{Method: wire.MethodStream, Params: json.RawMessage(params), ID: json.RawMessage(streamID),
		Principal: principal, Stateless: true, CanStream: true}
}

func runStream(st *streaming.Stream) *live { return runStreamAs(st, streamID) }

// runStreamAs runs the stream of a request with that id.
func runStreamAs(st *streaming.Stream, id string) *live {
	ctx, cancel := context.WithCancel(context.Background())
	l := &live{recorder: &recorder{id: id}, st: st, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.final, l.err = st.Run(ctx, l.recorder)
	}()
	return l
}

func stream(t testing.TB, s *Server, params string) *live {
	t.Helper()
	return streamAs(t, s, "", params)
}

func streamAs(t testing.TB, s *Server, principal, params string) *live {
	t.Helper()
	st, rerr := openStream(s, principal, params)
	if rerr != nil {
		t.Fatalf("stream %s: %d %s %s", params, rerr.Code, rerr.Message, rerr.Data)
	}
	l := runStream(st)
	t.Cleanup(func() {
		l.cancel()
		<-l.done
		if l.bad != nil {
			t.Error(l.bad)
		}
	})
	return l
}

// journal collects lines from several goroutines.
type journal struct {
	mu  sync.Mutex
	all []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, line)
}

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string{}, j.all...)
}

func equalStrings(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") }

func wantStrings(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !equalStrings(got, want) {
		t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

var errTest = errors.New("secret internal text")
