package waittool

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling/pollingtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type incident = eventtypetest.Incident

// A bed is the tools of a server without one. It is their Host.
type bed struct {
	Tools
	t       testing.TB
	order   []*pollingtest.Type
	refused map[string]error // by event
	maxPage int
	scan    int
	closing chan struct{}
}

func newBed(t testing.TB) *bed {
	b := &bed{t: t, refused: map[string]error{}, maxPage: 1 << 20, scan: 1000, closing: make(chan struct{})}
	b.Options = Options{Host: b, MCP: mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil),
		Log: &fault.Log{Logger: slog.New(slog.DiscardHandler)}, MaxWait: toolschema.MaxWaitSeconds * time.Second, MaxParams: 1 << 16}
	return b
}

// event registers an event type that emits, has a check, or both.
func (b *bed) event(name string, emits, checks bool, kept ...topic.Kept) *pollingtest.Type {
	b.t.Helper()
	e := pollingtest.New(b.t, name, emits, checks, kept...)
	b.order = append(b.order, e)
	return e
}

func readTool(event string) readtool.Tool {
	return readtool.New(events.Info{Name: event, Description: "D", InputSchema: json.RawMessage(eventtypetest.InputSchema),
		PayloadSchema: json.RawMessage(`{"type":"object"}`)}, "read_"+event, "cursor", "maxEvents")
}

func (b *bed) find(event string) *pollingtest.Type {
	for _, e := range b.order {
		if e.Name() == event {
			return e
		}
	}
	return nil
}

func (b *bed) Caller(ctx context.Context, _ *mcp.RequestExtra) (context.Context, func()) {
	return context.WithCancel(ctx)
}

func (b *bed) Registered(event string) bool { return b.find(event) != nil }

func (b *bed) Sees(_ context.Context, event string) error { return b.refused[event] }

func (b *bed) Offers(context.Context) (all []Offer) {
	for _, e := range b.order {
		if b.refused[e.Name()] != nil {
			continue
		}
		all = append(all, Offer{Name: e.Name(), Description: "An incident.", InputSchema: json.RawMessage(eventtypetest.InputSchema)})
	}
	return all
}

func (b *bed) Poll(ctx context.Context, p *wire.PollParams) (*polling.Answer, error) {
	q, err := b.Check(ctx, p, 0)
	if err != nil {
		return nil, err
	}
	return polling.Read(ctx, q)
}

func (b *bed) Check(_ context.Context, p *wire.PollParams, wait time.Duration) (*polling.Request, error) {
	e := b.find(p.Name)
	if e == nil {
		return nil, fault.NotFound("event")
	}
	if err := b.refused[p.Name]; err != nil {
		return nil, err
	}
	q, err := e.Request(string(p.Arguments), wait)
	if err != nil {
		return nil, err
	}
	q.Replay, q.Closing, q.MaxPage, q.Scan = topic.ReplayOf(p.Cursor, p.MaxAgeMs), b.closing, b.maxPage, b.scan
	if p.MaxEvents != nil {
		q.Limit = int(*p.MaxEvents)
	}
	return q, nil
}
