package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

type tickArguments struct {
	Channel string `json:"channel,omitempty"`
}

type tickPayload struct {
	Seq     int    `json:"seq"`
	Channel string `json:"channel,omitempty"`
}

// tickType is the event type of the real servers; more payload properties make another fingerprint.
func tickType(t *testing.T, more string) events.Type[tickArguments, tickPayload] {
	in := json.RawMessage(`{"type":"object","properties":{"channel":{"type":"string"}},"additionalProperties":false}`)
	out := json.RawMessage(`{"type":"object","properties":{"seq":{"type":"integer"},"channel":{"type":"string"}` + more + `},"required":["seq"]}`)
	fingerprint, err := wire.Fingerprint(in, out)
	if err != nil {
		t.Fatal(err)
	}
	return events.Type[tickArguments, tickPayload]{Info: events.Info{Name: "tick", Description: "A tick.",
		InputSchema: in, PayloadSchema: out, Fingerprint: fingerprint,
		Match: []events.MatchRule{{Argument: "channel", Path: "/channel", Op: events.MatchEqual}}}}
}

// A house is a real server that can be restarted while its address stays.
type house struct {
	t *testing.T
	c carrier
	o server.Options

	mu      sync.Mutex
	srv     *mcp.Server
	es      *server.Server
	handler http.Handler
	ticks   *server.Emitter[tickPayload]
	runs    sync.WaitGroup
}

func newHouse(t *testing.T, c carrier, o server.Options) *house {
	o.Logger = slog.New(slog.DiscardHandler)
	h := &house{t: t, c: c, o: o}
	h.start()
	t.Cleanup(h.stop)
	return h
}

func (h *house) start() {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var so mcp.ServerOptions
	if h.c.legacy {
		so.SupportedProtocolVersions = []string{wire.RevisionLegacy}
	}
	h.srv = mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, &so)
	o := h.o
	if o.Webhooks != nil { // a part belongs to one server
		o.Webhooks = webhooks.New(*o.Webhooks.Value().Options.(*webhooks.Options))
		o.Operators = operators.New()
	}
	var err error
	if h.es, err = server.New(h.srv, o); err != nil {
		h.t.Fatal(err)
	}
	h.ticks, err = server.Register(h.es, tickType(h.t, ""), server.Hooks[tickArguments, tickPayload]{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.handler = transport.NewHandler(h.es, transport.HandlerOptions{})
}

func (h *house) stop() {
	h.mu.Lock()
	srv, es := h.srv, h.es
	h.mu.Unlock()
	if err := es.Shutdown(context.Background()); err != nil {
		h.t.Error(err)
	}
	h.runs.Wait()
	for ss := range srv.Sessions() { // as the end of the process would
		ss.Close()
	}
}

func (h *house) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	handler := h.handler
	h.mu.Unlock()
	handler.ServeHTTP(w, r)
}

func (h *house) transport() mcp.Transport {
	if h.c.http {
		return HTTP("http://fake/mcp", newFake(false).serve(h.t, h))
	}
	return Dial(func(ctx context.Context) (mcp.Transport, error) {
		mine, theirs := mcp.NewInMemoryTransports()
		h.mu.Lock()
		es := h.es
		h.mu.Unlock()
		h.runs.Go(func() { transport.Run(context.Background(), es, theirs) })
		return mine, nil
	})
}

func (h *house) connect(o Options) *Client {
	h.t.Helper()
	if h.c.legacy {
		o.ProtocolVersion = wire.RevisionLegacy
	}
	cl, err := Connect(h.t.Context(), h.transport(), o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { cl.Close() })
	return cl
}

func (h *house) emit(from, to int) {
	h.t.Helper()
	for i := from; i <= to; i++ {
		p := tickPayload{Seq: i, Channel: []string{"even", "odd"}[i%2]}
		if err := h.ticks.Emit(h.t.Context(), p, events.WithID(fmt.Sprint("e", i))); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *house) subscribe(cl *Client, channel string, o ...SubscribeOption) *typedSub {
	h.t.Helper()
	s, err := Subscribe(h.t.Context(), cl, tickType(h.t, ""), tickArguments{Channel: channel}, o...)
	if err != nil {
		h.t.Fatal(err)
	}
	sub := &typedSub{TypedSubscription: s, t: h.t, got: make(chan string, 10_000)}
	go func() {
		for ev, err := range s.Events() {
			switch {
			case errors.As(err, new(*GapError)):
				sub.got <- "gap"
			case err != nil:
				sub.got <- "error: " + err.Error()
			case ev.ID != fmt.Sprint("e", ev.Data.Seq):
				sub.got <- "wrong"
			default:
				sub.got <- ev.ID
			}
		}
		close(sub.got)
	}()
	return sub
}

type typedSub struct {
	*TypedSubscription[tickArguments, tickPayload]
	t   *testing.T
	got chan string
}

func (s *typedSub) want(words ...string) {
	s.t.Helper()
	for _, w := range words {
		// The server gives a reason behind the name; a client that finds out by itself has none.
		if got := strings.Replace(<-s.got, "NotFound: no such event type", "NotFound", 1); got != w {
			s.t.Fatalf("%s: got %q, want %q", s.Subscription().Mode(), got, w)
		}
	}
}

func (s *typedSub) silent() {
	s.t.Helper()
	synctest.Wait()
	select {
	case got := <-s.got:
		s.t.Errorf("%s: unexpected %q", s.Subscription().Mode(), got)
	default:
	}
}

func ids(from, to, step int) []string {
	var all []string
	for i := from; i <= to; i += step {
		all = append(all, fmt.Sprint("e", i))
	}
	return all
}
