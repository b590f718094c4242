package campaign

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// Names of the guests' actions in the report.
const (
	unsubscribed = "webhooks unsubscribed"
	expired      = "webhooks expired"
	revoked      = "webhooks revoked"
	rotated      = "secrets rotated"
	overfull     = "subscribes beyond the quota"
)

const (
	// quota is the maximum number of webhook subscriptions of a principal.
	quota = 8
	// shortTTL is the TTL of a subscription that the guest lets expire. stayTime is how long a guest keeps a
	// subscription. awayTime is how long it then watches for deliveries.
	shortTTL = 3 * time.Second
	stayTime = 1500 * time.Millisecond
	awayTime = 5 * time.Second
)

// A guest repeatedly creates a temporary webhook subscription under a separate principal. It subscribes, rotates its
// secret and ends the subscription, each time at another replica. The subscription ends by an unsubscribe, by expiry or
// by a revocation. The reception reports later deliveries as findings.
type guest struct {
	c        *Campaign
	number   int
	token    string
	endpoint *webhook.Endpoint
	secret   webhook.Secret
	id       string  // of its subscription
	answers  answers // to the operator
	unknown  bool    // the last action got 404 after an earlier request had failed
	unsure   bool    // a pause was requested several times, and one of them may be applied late
}

func newGuest(c *Campaign, number int) (*guest, error) {
	e, err := c.reception.handler.Open(webhook.EndpointOptions{})
	if err != nil {
		return nil, err
	}
	return &guest{c: c, number: number, token: fmt.Sprintf("guest%d", number), endpoint: e, secret: e.Secret()}, nil
}

func (g *guest) run(ctx context.Context) {
	for n := g.number; ctx.Err() == nil; n++ {
		ways := []string{unsubscribed, expired, revoked}
		if !g.visit(ctx, ways[n%len(ways)]) {
			return
		}
	}
}

// visit creates and ends one subscription. It returns false if ctx is done.
func (g *guest) visit(ctx context.Context, way string) bool {
	ttl := time.Hour
	if way == expired {
		ttl = shortTTL
	}
	r := g.c.reception
	// A subscription without a cursor starts at the head known to its process, which may precede the end of an earlier
	// visit.
	r.update(g.endpoint, func(t *terms) { *t = terms{anew: time.Now()} })
	until, ok := g.subscribe(ctx, ttl)
	if !ok || !Sleep(ctx, stayTime) {
		return false
	}
	g.secret = webhook.NewSecret()
	g.endpoint.Rotate(g.secret, time.Minute)
	before := until
	if until, ok = g.subscribe(ctx, ttl); !ok {
		return false
	}
	r.update(g.endpoint, func(t *terms) {
		t.secret, t.since = g.secret, time.Now()
		if t.since.After(before) {
			t.anew = t.since
		}
	})
	g.c.happened(rotated)
	switch way {
	case expired:
		r.update(g.endpoint, func(t *terms) { t.over, t.why = until, "expiry" })
		ok = Sleep(ctx, time.Until(until))
	case unsubscribed:
		if ok = Sleep(ctx, stayTime+2*time.Second) && g.retry(ctx, way, g.unsubscribe); ok {
			r.update(g.endpoint, func(t *terms) { t.over, t.why = time.Now(), "unsubscribe" })
		}
	case revoked:
		if ok = Sleep(ctx, stayTime+2*time.Second) && g.retry(ctx, way, g.revoke); ok {
			r.update(g.endpoint, func(t *terms) { t.over, t.why = time.Now(), "revocation" })
		}
	}
	if ok {
		g.c.happened(way)
	}
	return ok && Sleep(ctx, awayTime)
}

// retry calls f until it succeeds. It returns false if f fails permanently or ctx is done.
func (g *guest) retry(ctx context.Context, what string, f func(context.Context) error) bool {
	return g.retryWithin(ctx, what, answerTime, settleTime, f)
}

// retryWithin is like retry, but with another timeout of a call and of all calls.
func (g *guest) retryWithin(ctx context.Context, what string, timeout, all time.Duration, f func(context.Context) error) bool {
	for end := time.Now().Add(all); ctx.Err() == nil; {
		bound, cancel := context.WithTimeout(ctx, timeout)
		err := f(bound)
		cancel()
		if err == nil {
			return true
		}
		var r *refusal
		if errors.As(err, &r) && !temporary(r.Code) || time.Now().After(end) {
			if ctx.Err() == nil {
				g.c.fail(fmt.Errorf("%s: %s: %w\n%s", g.token, what, err, g.c.history(ctx, g.endpoint.Path(), g.answers)))
			}
			return false
		}
		Sleep(ctx, 50*time.Millisecond)
	}
	return false
}

func (g *guest) delivery() wire.Delivery {
	return wire.Delivery{Mode: "webhook", URL: g.c.reception.server.URL + g.endpoint.Path()}
}

func (g *guest) subscribe(ctx context.Context, ttl time.Duration) (until time.Time, ok bool) {
	ok = g.retry(ctx, "subscribe", func(ctx context.Context) error {
		d := g.delivery()
		d.Secret = g.secret.Text()
		resp, err := callAs(ctx, g.c.hc, g.c.balancer.URL, g.token, wire.MethodSubscribe, map[string]any{
			"name": tickets.TicketCreatedEventName, "arguments": arguments(""), "ttlMs": ttl.Milliseconds(), "delivery": d})
		if err != nil {
			return err
		}
		var result struct {
			ID            string    `json:"id"`
			RefreshBefore time.Time `json:"refreshBefore"`
		}
		if err := decode(resp, &result); err != nil {
			return err
		}
		until, g.id = result.RefreshBefore, result.ID
		g.endpoint.Activate(result.ID, func(context.Context, webhook.Delivery) error { return nil })
		return nil
	})
	return until, ok
}

func (g *guest) unsubscribe(ctx context.Context) error {
	resp, err := callAs(ctx, g.c.hc, g.c.balancer.URL, g.token, wire.MethodUnsubscribe, map[string]any{
		"name": tickets.TicketCreatedEventName, "arguments": arguments(""), "delivery": g.delivery()})
	if err != nil {
		return err
	}
	err = decode(resp, &struct{}{})
	var r *refusal
	if errors.As(err, &r) && r.Code == wire.Sketch.Code(wire.NotFound) {
		return nil // the response to an earlier attempt was lost
	}
	return err
}

func (g *guest) revoke(ctx context.Context) error {
	status, text, err := g.request(ctx, http.MethodPost, "/ops/api/revoke", rand.Text(), map[string]any{"principal": g.token})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d %s", status, text)
	}
	return err
}

// exceedQuota repeatedly subscribes more callbacks concurrently than the quota allows and checks the number of stored
// records.
func (c *Campaign) exceedQuota(ctx context.Context) {
	const name = "throng"
	var all []*guest
	for range quota + quota/2 {
		g, err := newGuest(c, 0)
		if err != nil {
			c.fail(err)
			return
		}
		g.token = name
		all = append(all, g)
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { c.checkQuota(watching, name) })
	defer watch.Wait()
	defer stop()
	for ctx.Err() == nil {
		var asked sync.WaitGroup
		for _, g := range all {
			asked.Go(func() {
				d := g.delivery()
				d.Secret = g.secret.Text()
				bound, cancel := context.WithTimeout(ctx, answerTime)
				defer cancel()
				resp, err := callAs(bound, c.hc, c.balancer.URL, name, wire.MethodSubscribe, map[string]any{
					"name": tickets.TicketCreatedEventName, "arguments": map[string]any{"severity": "high"}, "delivery": d})
				if err == nil {
					err = decode(resp, &struct{}{})
				}
				var r *refusal
				if errors.As(err, &r) && r.Code == wire.Sketch.Code(wire.ResourceExhausted) {
					c.happened(overfull)
				}
			})
		}
		asked.Wait()
		for _, g := range all {
			asked.Go(func() {
				bound, cancel := context.WithTimeout(ctx, answerTime)
				defer cancel()
				resp, err := callAs(bound, c.hc, c.balancer.URL, name, wire.MethodUnsubscribe, map[string]any{
					"name": tickets.TicketCreatedEventName, "arguments": map[string]any{"severity": "high"}, "delivery": g.delivery()})
				if err == nil {
					_ = decode(resp, &struct{}{}) // a remaining subscription counts toward the quota in the next round
				}
			})
		}
		asked.Wait()
		Sleep(ctx, time.Second)
	}
}

// checkQuota repeatedly checks that a principal does not exceed the quota.
func (c *Campaign) checkQuota(ctx context.Context, name string) {
	for Sleep(ctx, 100*time.Millisecond) {
		bound, cancel := context.WithTimeout(ctx, answerTime)
		n, err := c.db.Subscriptions(bound, name)
		cancel()
		if err == nil && n > quota { // the database may be away
			c.fail(fmt.Errorf("a principal has %d webhook subscriptions, but at most %d are allowed", n, quota))
		}
	}
}
