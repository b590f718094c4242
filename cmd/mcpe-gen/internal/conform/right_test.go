package conform

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

type tock struct {
	Seq  int    `json:"seq"`
	Kind string `json:"kind"`
}

// A server of this module is blamed for nothing, in both eras of the protocol, by both routes and by every mode.
func TestRightServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		revision string
		direct   bool
	}{"stateless": {wire.RevisionStateless, false}, "stateless direct": {wire.RevisionStateless, true}, "legacy": {wire.RevisionLegacy, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, trusting := door(t)
			o := Options{Wait: 10 * time.Second, pace: &quick, Revision: c.revision, door: d, OtherToken: other,
				Target: peer.Target{URL: right(t, trusting.Transport.(*http.Transport).TLSClientConfig, c.direct), Token: token}}
			for _, found := range judge(t, o).Findings {
				only := strings.HasPrefix(found.Got, "only with --") || strings.HasPrefix(found.Got, "only for a server") || strings.Contains(found.Got, "--ssrf") ||
					strings.Contains(found.Got, "on this revision") || strings.Contains(found.Got, "older revision") || strings.HasPrefix(found.Got, "no descriptor has a fingerprint") ||
					strings.HasPrefix(found.Got, "fewer than two deliveries") // its pauses have jitter
				if found.Outcome == verdict.Fail || found.Outcome == verdict.Advice || found.Outcome == verdict.Skip && !only {
					t.Errorf("%+v", found)
				}
			}
		})
	}
}

// right serves a type that occurs by every mode, one by poll and one by webhook only.
func right(t *testing.T, trusting *tls.Config, direct bool) string {
	t.Helper()
	srv := mcp.NewServer(&mcp.Implementation{Name: "right", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{Logger: slog.New(slog.DiscardHandler), Heartbeat: 100 * time.Millisecond, NextPoll: 50 * time.Millisecond,
		Principal: func(_ context.Context, extra *mcp.RequestExtra) string {
			switch extra.Header.Get("Authorization") {
			case "Bearer " + token:
				return "me"
			case "Bearer " + other:
				return "other"
			}
			return ""
		},
		Webhook: &server.WebhookOptions{Retry: server.Retry{Schedule: []time.Duration{0, time.Second, time.Second, 2 * time.Second}},
			Callbacks: server.Callbacks{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, TLS: trusting}}})
	if err != nil {
		t.Fatal(err)
	}
	info := func(name string) events.Type[json.RawMessage, tock] {
		return events.Type[json.RawMessage, tock]{Info: events.Info{Name: name, Description: "What happens.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"kind":{"type":"string","enum":["a","b"],"x-match":"/kind"},
				"least":{"type":"integer","minimum":0,"maximum":10}},"additionalProperties":false}`),
			PayloadSchema: json.RawMessage(`{"type":"object","properties":{"seq":{"type":"integer"},"kind":{"type":"string"}},"required":["seq","kind"]}`)}}
	}
	tocks, err := server.Register(es, info("tock"), server.Hooks[json.RawMessage, tock]{})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string][]server.TypeOption{"spare": {server.WithoutPush(), server.WithoutWebhook()},
		"hook": {server.WithoutPoll(), server.WithoutPush()}} {
		if _, err := server.Register(es, info(name), server.Hooks[json.RawMessage, tock]{}, o...); err != nil {
			t.Fatal(err)
		}
	}
	web := httptest.NewServer(transport.NewHandler(es, transport.HandlerOptions{Direct: direct}))
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(40 * time.Millisecond)
		defer ticker.Stop()
		for seq := 1; ; seq++ {
			select {
			case <-ctx.Done():
				over <- nil
				return
			case <-ticker.C:
			}
			if err := tocks.Emit(ctx, tock{seq, "a"}); err != nil && ctx.Err() == nil {
				over <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		ended, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := es.Shutdown(ended); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	return web.URL
}
