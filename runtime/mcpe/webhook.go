package mcpe

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// WebhookOptions configures handlers that post events to a URL provided by the subscriber. See MCPE-HAN-2.
type WebhookOptions struct {
	// Callbacks restricts the addresses that requests may reach. The zero value allows public addresses over https.
	// MaxTimeout replaces its Timeout.
	Callbacks callbacks.Options
	// Timeout is the default timeout of a handler (default 10 s). MaxTimeout is its maximum timeout (default 1 min).
	Timeout, MaxTimeout time.Duration
	// Secret is used to sign every request according to Standard Webhooks. The zero value disables signatures.
	Secret webhook.Secret
	// Attempts limits the attempts for a request that fails temporarily; default 3.
	Attempts int
}

type poster struct {
	o     WebhookOptions
	guard *netguard.Guard
}

func newWebhook(o WebhookOptions) (*poster, error) {
	o.Timeout = cmp.Or(max(o.Timeout, 0), 10*time.Second)
	o.MaxTimeout = cmp.Or(max(o.MaxTimeout, 0), time.Minute)
	o.Attempts = cmp.Or(max(o.Attempts, 0), 3)
	o.Callbacks.Timeout = o.MaxTimeout
	g, err := netguard.New(netguard.Options(o.Callbacks))
	if err != nil {
		return nil, err
	}
	return &poster{o: o, guard: g}, nil
}

func (p *poster) close() { p.guard.Close() }

func (p *poster) timeout(h *mcpewire.Handler) time.Duration {
	return handlerTimeout(h, p.o.Timeout, p.o.MaxTimeout)
}

// reservedHeaders lists headers that a subscriber may not set.
var reservedHeaders = []string{"Host", "Connection", "Content-Length", "Content-Type", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Expect",
	"Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Forwarded", "Cookie"}

func (p *poster) check(o object, h *mcpewire.Handler, _ bool) (err *refusal) {
	if h.URL, err = o.text("url"); err != nil {
		return err
	}
	if _, bad := p.guard.ParseURL(h.URL); bad != nil {
		return invalidField(o.path("url"), "%v", bad)
	}
	if h.Headers, err = o.table("headers"); err != nil {
		return err
	}
	for name, value := range h.Headers {
		key := textproto.CanonicalMIMEHeaderKey(name)
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || slices.Contains(reservedHeaders, key) ||
			strings.HasPrefix(key, "X-Forwarded-") || strings.HasPrefix(key, "Webhook-") {
			return invalidField(o.path("headers"), "%.64q may not be set", name)
		}
	}
	return nil
}

// run posts the event.
func (p *poster) run(ctx context.Context, r *run) error {
	body := encode(struct {
		Event     *mcpewire.Event `json:"event"`
		Timestamp string          `json:"timestamp"`
	}{&r.event, stamp(time.Now())})
	for attempt := 1; ; attempt++ {
		again, err := p.post(ctx, r, body)
		if err == nil || !again || attempt >= p.o.Attempts {
			return err
		}
		pause := time.NewTimer(time.Duration(attempt) * time.Second)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// post sends the request once. retryable reports whether a retry could succeed.
func (p *poster) post(ctx context.Context, r *run, body []byte) (retryable bool, err error) {
	header := make(http.Header)
	for name, value := range r.handler.Headers {
		header.Set(name, value)
	}
	header.Set("Content-Type", "application/json")
	if !p.o.Secret.IsZero() {
		signer := webhook.Signer{Ring: webhook.NewRing(p.o.Secret)}
		if err := signer.Sign(header, webhook.Message{ID: r.event.ID, Subscription: r.subscription, Body: body}, time.Now()); err != nil {
			return false, err
		}
	}
	answer, err := p.guard.Send(ctx, netguard.Request{Method: http.MethodPost, URL: r.handler.URL, Header: header, Body: body})
	if err != nil {
		return true, err
	}
	if c := answer.Category(); c != "" {
		return answer.Status >= 500 || answer.Status == http.StatusTooManyRequests, fmt.Errorf("the endpoint answered %d", answer.Status)
	}
	return false, nil
}
