package ingress_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/metertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// Deliveries that no route takes are told to the operator in three ways; a terminal never sees their bytes.
func TestUnmapped(t *testing.T) {
	m := &metertest.Meter{}
	var told []ingress.Delivery
	f := newFixture(t, gitHub(t), ingress.Options{
		Unmapped:  func(_ context.Context, d ingress.Delivery) { told = append(told, d) },
		Telemetry: m.Recorder(nil),
	}, fromIssues())
	body := "{\"action\":\"\\u001b[31m\u202e" + strings.Repeat("x", 1000) + "\"}"
	if status := f.post(gitHubHeader("d-1", body), body); status != 202 {
		t.Errorf("status %d", status)
	}
	f.post(nil, opened)
	f.post(gitHubHeader("d-1", opened), opened)
	if len(told) != 1 || told[0].Event != "issues" || told[0].ID != "d-1" {
		t.Errorf("told %+v", told)
	}
	if text := f.log.String(); !strings.Contains(text, "no route takes") || strings.ContainsAny(text, "\x1b\u202e") || len(text) > 4000 {
		t.Errorf("the log: %q", text)
	}
	want := map[string]int64{}
	for _, outcome := range []string{"unmapped", "refused", "emitted"} {
		want["mcp.events.ingress.deliveries mcp.events.outcome="+outcome+",mcp.events.provider=github"] = 1
	}
	if got := m.Counted(); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// What is wrong with routes is told before anything is served.
func TestNewHandlerRefuses(t *testing.T) {
	f := newFixture(t, gitHub(t), ingress.Options{}, fromIssues())
	hmac, err := ingress.NewHMAC(ingress.HMACOptions{Secrets: []string{"secret of eight"}, Header: "X"})
	if err != nil {
		t.Fatal(err)
	}
	field := func(target, source string) ingress.From {
		return ingress.From{Provider: "github", Fields: []ingress.Field{{Target: "/a/b", Source: "/x"}, {Target: target, Source: source}}}
	}
	bad := issueOpened
	bad.PayloadSchema = json.RawMessage(`{"type":"nothing"}`)
	for name, make := range map[string]func() (*ingress.Handler, error){
		"no service": func() (*ingress.Handler, error) { return ingress.NewHandler(nil, ingress.Options{}) },
		"no routes":  func() (*ingress.Handler, error) { return ingress.NewHandler(gitHub(t), ingress.Options{}) },
		"empty route": func() (*ingress.Handler, error) {
			return ingress.NewHandler(gitHub(t), ingress.Options{}, ingress.Route{})
		},
		"no emitter": func() (*ingress.Handler, error) {
			return ingress.NewHandler(gitHub(t), ingress.Options{}, ingress.To((*server.Emitter[issue])(nil), issueOpened, fromIssues()))
		},
		"provider": func() (*ingress.Handler, error) {
			return ingress.NewHandler(hmac, ingress.Options{}, ingress.To(f.emitter, issueOpened, fromIssues()))
		},
		"no id": func() (*ingress.Handler, error) {
			return ingress.NewHandler(hmac, ingress.Options{}, ingress.To(f.emitter, issueOpened, ingress.From{Provider: "hmac"}))
		},
		"id": func() (*ingress.Handler, error) {
			return ingress.NewHandler(hmac, ingress.Options{}, ingress.To(f.emitter, issueOpened, ingress.From{Provider: "hmac", ID: "a b"}))
		},
		"schema": func() (*ingress.Handler, error) {
			return ingress.NewHandler(gitHub(t), ingress.Options{}, ingress.To(f.emitter, bad, fromIssues()))
		},
		"target twice": func() (*ingress.Handler, error) {
			return ingress.NewHandler(gitHub(t), ingress.Options{}, ingress.To(f.emitter, issueOpened, field("/a/b", "/y")))
		},
		"target below": func() (*ingress.Handler, error) {
			return ingress.NewHandler(gitHub(t), ingress.Options{}, ingress.To(f.emitter, issueOpened, field("/a/b/c", "/y")))
		},
		"target above": func() (*ingress.Handler, error) {
			return ingress.NewHandler(gitHub(t), ingress.Options{}, ingress.To(f.emitter, issueOpened, field("/a", "/y")))
		},
		"no pointer": func() (*ingress.Handler, error) {
			return ingress.NewHandler(gitHub(t), ingress.Options{}, ingress.To(f.emitter, issueOpened, field("c", "/y")))
		},
		"no source": func() (*ingress.Handler, error) {
			return ingress.NewHandler(gitHub(t), ingress.Options{}, ingress.To(f.emitter, issueOpened, field("/c", "/~")))
		},
	} {
		if h, err := make(); err == nil || h != nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// counting is a wrapper around an emitter, as programs write them.
type counting struct {
	*server.Emitter[issue]
	emits int
}

func (c *counting) Emit(ctx context.Context, p issue, o ...events.EmitOption) error {
	c.emits++
	return c.Emitter.Emit(ctx, p, o...)
}

// What a program wraps around an emitter is called for each delivery.
func TestWrappedEmitter(t *testing.T) {
	f := newFixture(t, gitHub(t), ingress.Options{}, fromIssues())
	wrapped := &counting{Emitter: f.emitter}
	var err error
	f.Handler, err = ingress.NewHandler(gitHub(t), ingress.Options{Logger: slog.New(slog.DiscardHandler)}, ingress.To(wrapped, issueOpened, fromIssues()))
	if err != nil {
		t.Fatal(err)
	}
	f.post(gitHubHeader("d-1", opened), opened)
	f.wants(1)
	if wrapped.emits != 1 {
		t.Errorf("%d emits by the wrapper", wrapped.emits)
	}
}

// One delivery may become occurrences of several event types: what fits one is emitted whatever another makes of it,
// and what is sent again after a failure reaches those that lack it, once each (OCC-5).
func TestSeveralRoutes(t *testing.T) {
	kept := &failing{Store: memory.New()}
	f := newFixture(t, gitHub(t), ingress.Options{}, fromIssues(), kept)
	strict := issueOpened
	strict.Name = "issue.urgent"
	urgent, err := server.Register(f.events, events.Type[struct{}, issue]{Info: strict}, server.Hooks[struct{}, issue]{})
	if err != nil {
		t.Fatal(err)
	}
	toUrgent := fromIssues()
	toUrgent.Fields = []ingress.Field{{Target: "/repo", Source: "/repository/full_name"}, {Target: "/number", Source: "/urgent"}}
	f.Handler, err = ingress.NewHandler(gitHub(t), ingress.Options{Logger: slog.New(slog.DiscardHandler)},
		ingress.To(urgent, strict, toUrgent), ingress.To(f.emitter, issueOpened, fromIssues()))
	if err != nil {
		t.Fatal(err)
	}
	if status := f.post(gitHubHeader("d-1", opened), opened); status != http.StatusAccepted {
		t.Errorf("one of two fits: status %d, want 202", status)
	}
	f.wants(1)
	both := strings.Replace(opened, `"action"`, `"urgent":7,"action"`, 1)
	kept.only = "issue.urgent"
	kept.fail = true
	if status := f.post(gitHubHeader("d-2", both), both); status != http.StatusServiceUnavailable {
		t.Errorf("one of two fails: status %d, want 503", status)
	}
	f.wants(2)
	kept.fail = false
	if status := f.post(gitHubHeader("d-2", both), both); status != http.StatusNoContent {
		t.Errorf("sent again: status %d, want 204", status)
	}
	f.wants(2)
}

// What is larger than payloads may be does not fit, however often it is sent.
func TestTooLargeForTheType(t *testing.T) {
	f := newFixture(t, gitHub(t), ingress.Options{MaxBody: 4 << 20}, fromIssues())
	body := strings.Replace(opened, `"note":null`, `"note":"`+strings.Repeat("x", 2<<20)+`"`, 1)
	if status := f.post(gitHubHeader("d-1", body), body); status != http.StatusAccepted || !strings.Contains(f.log.String(), "larger than payloads may be") {
		t.Errorf("status %d: %.300s", status, f.log.String())
	}
	f.wants(0)
}

// The time of an occurrence is the service's where it says one (OCC-1).
func TestTimeOfTheService(t *testing.T) {
	s, err := ingress.NewStripe(ingress.StripeOptions{Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, s, ingress.Options{}, ingress.From{Provider: "stripe", Event: "invoice.paid"})
	const body = `{"id":"evt_1","type":"invoice.paid","created":1700000000,"repo":"a","number":1}`
	stamp := unix(0)
	if status := f.post(map[string]string{"Stripe-Signature": "t=" + stamp + ",v1=" + sum(secret, stamp, ".", body)}, body); status != 204 {
		t.Errorf("status %d: %s", status, &f.log)
	}
	if got := f.received(); len(got) != 1 || got[0].EventID != "evt_1" || got[0].Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("received %+v", got)
	}
}
