package campaign

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// Names of the actions of guests in the report.
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
	// shortTTL is the TTL of a subscription that is to expire. stay is how long a guest has a subscription, and away
	// how long it then watches for deliveries.
	shortTTL = 3 * time.Second
	stay     = 1500 * time.Millisecond
	away     = 5 * time.Second
)

// A guest has a webhook for a while, under a separate principal. It subscribes, rotates its secret, and unsubscribes,
// lets the subscription expire or is revoked, each at another replica. The reception reports deliveries after that as
// findings.
type guest struct {
	c        *Campaign
	number   int
	token    string
	endpoint *webhook.Endpoint
	secret   webhook.Secret
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

// visit has one subscription. It returns false if ctx has ended.
func (g *guest) visit(ctx context.Context, way string) bool {
	ttl := time.Hour
	if way == expired {
		ttl = shortTTL
	}
	r := g.c.reception
	// A subscription without a cursor starts at the head that its process knows, which may precede the end of an
	// earlier visit.
	r.now(g.endpoint, func(t *terms) { *t = terms{anew: time.Now()} })
	until, ok := g.subscribe(ctx, ttl)
	if !ok || !Sleep(ctx, stay) {
		return false
	}
	g.secret = webhook.NewSecret()
	g.endpoint.Rotate(g.secret, time.Minute)
	before := until
	if until, ok = g.subscribe(ctx, ttl); !ok {
		return false
	}
	r.now(g.endpoint, func(t *terms) {
		t.secret, t.since = g.secret, time.Now()
		if t.since.After(before) {
			t.anew = t.since
		}
	})
	g.c.happened(rotated)
	switch way {
	case expired:
		r.now(g.endpoint, func(t *terms) { t.over, t.why = until, "expiry" })
		ok = Sleep(ctx, time.Until(until))
	case unsubscribed:
		if ok = Sleep(ctx, stay+2*time.Second) && g.again(ctx, way, g.unsubscribe); ok {
			r.now(g.endpoint, func(t *terms) { t.over, t.why = time.Now(), "unsubscribe" })
		}
	case revoked:
		if ok = Sleep(ctx, stay+2*time.Second) && g.again(ctx, way, g.revoke); ok {
			r.now(g.endpoint, func(t *terms) { t.over, t.why = time.Now(), "revocation" })
		}
	}
	if ok {
		g.c.happened(way)
	}
	return ok && Sleep(ctx, away)
}

// again retries f until it succeeds. It returns false if ctx has ended.
func (g *guest) again(ctx context.Context, what string, f func(context.Context) error) bool {
	for end := time.Now().Add(settleTime); ctx.Err() == nil; {
		bound, cancel := context.WithTimeout(ctx, answerTime)
		err := f(bound)
		cancel()
		if err == nil {
			return true
		}
		var r *refusal
		if errors.As(err, &r) && !temporary(r.Code) || time.Now().After(end) {
			if ctx.Err() == nil {
				g.c.fail(fmt.Errorf("%s: %s: %w", g.token, what, err))
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
	ok = g.again(ctx, "subscribe", func(ctx context.Context) error {
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
		until = result.RefreshBefore
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
		return nil // the answer to an earlier attempt was lost
	}
	return err
}

func (g *guest) revoke(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.c.balancer.URL+"/revoke?principal="+g.token, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := g.c.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// throng repeatedly subscribes more callbacks concurrently than the quota allows, and checks the records.
func (c *Campaign) throng(ctx context.Context) {
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
	watch.Go(func() { c.count(watching, name) })
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
					_ = decode(resp, &struct{}{}) // a subscription that remains takes a place in the next round
				}
			})
		}
		asked.Wait()
		Sleep(ctx, time.Second)
	}
}

// count checks that a principal does not exceed the quota.
func (c *Campaign) count(ctx context.Context, name string) {
	for Sleep(ctx, 100*time.Millisecond) {
		bound, cancel := context.WithTimeout(ctx, answerTime)
		n, err := c.db.Subscriptions(bound, name)
		cancel()
		if err == nil && n > quota { // the database may be away
			c.fail(fmt.Errorf("a principal has %d webhook subscriptions, but at most %d are allowed", n, quota))
		}
	}
}
