package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A subscription is a webhook subscription on the server.
type subscription struct {
	of       *subject
	callback *callback
	made     *exchange
	// id is the id that events/subscribe returned.
	id string
}

// delivery returns the delivery parameter of events/subscribe for the callback.
func (c *callback) delivery() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return map[string]any{"mode": wire.ModeWebhook, "url": c.url, "secret": c.secret}
}

// subscribe calls events/subscribe and records the subscription for cleanUp, regardless of the response.
func (r *run) subscribe(ctx context.Context, s *subject, c *callback, more map[string]any) (*exchange, error) {
	return r.call(ctx, wire.MethodSubscribe, r.subscription(s, c, more))
}

// mustSubscribe subscribes a callback and checks that the server grants it.
func (r *run) mustSubscribe(ctx context.Context, s *subject, c *callback, more map[string]any) (*exchange, error) {
	x, err := r.subscribe(ctx, s, c, more)
	if err == nil {
		_, err = grantedID(x, false)
	}
	return x, err
}

// subscribeNew subscribes a new callback to the webhook type under test, and checks that the server grants it.
func (r *run) subscribeNew(ctx context.Context, more map[string]any) (c *callback, x *exchange, id string, err error) {
	c = r.newCallback(echoes)
	if x, err = r.subscribe(ctx, r.hook, c, more); err == nil {
		id, err = grantedID(x, false)
	}
	return c, x, id, err
}

// endOpened ends the subscriptions that the current check created, but that of the main callback. Other checks examine
// how a server does so.
func (r *run) endOpened(ctx context.Context) {
	r.mu.Lock()
	opened := r.opened
	r.opened = nil
	r.mu.Unlock()
	for _, key := range opened {
		if r.mainSubscription == nil || key["delivery"].(map[string]any)["url"] != r.mainSubscription.callback.url {
			_, _ = r.call(ctx, wire.MethodUnsubscribe, key)
		}
	}
}

// subscription returns the parameters of an events/subscribe request and records its key.
func (r *run) subscription(s *subject, c *callback, more map[string]any) map[string]any {
	params := s.params(map[string]any{"cursor": nil, "delivery": c.delivery()})
	for k, v := range more {
		if params[k] = v; v == nil && k == "arguments" {
			delete(params, k)
		}
	}
	r.recordKey(params)
	return params
}

// keyOf returns the key of a subscription with the parameters.
func keyOf(params map[string]any) map[string]any {
	key := map[string]any{"name": params["name"], "arguments": params["arguments"]}
	if key["arguments"] == nil {
		delete(key, "arguments")
	}
	if d, ok := params["delivery"].(map[string]any); ok {
		key["delivery"] = map[string]any{"mode": wire.ModeWebhook, "url": d["url"]}
	}
	return key
}

// recordKey records the key of a subscription that may now exist.
func (r *run) recordKey(params map[string]any) {
	key := keyOf(params)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscriptions[string(verdict.Encode(key))] = key
}

// unsubscribe calls events/unsubscribe for the key of a callback's subscription.
func (r *run) unsubscribe(ctx context.Context, s *subject, c *callback) (*exchange, error) {
	return r.call(ctx, wire.MethodUnsubscribe,
		s.params(map[string]any{"delivery": map[string]any{"mode": wire.ModeWebhook, "url": c.url}}))
}

// cleanUp ends every subscription that may exist. It ignores error responses.
func (r *run) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	for _, key := range r.subscriptions {
		if _, err := r.call(ctx, wire.MethodUnsubscribe, maps.Clone(key)); err != nil && ctx.Err() != nil {
			return
		}
	}
}

// grantedID checks the result of events/subscribe and returns the subscription ID.
func grantedID(x *exchange, endless bool) (string, error) {
	if err := x.refused("a subscription"); err != nil {
		return "", err
	}
	in := x.answer.result
	var id string
	if json.Unmarshal(member(in, "id"), &id) != nil || id == "" {
		return "", x.violation("an id, a string", "%s", orNone(member(in, "id")))
	}
	before, err := stringOrNull(x, in, "refreshBefore")
	switch {
	case err != nil:
		return id, err
	case before == nil && !endless:
		return id, x.violation("refreshBefore, since ttlMs was not null", "null")
	case before != nil:
		at, err := time.Parse(time.RFC3339Nano, *before)
		if err != nil {
			return id, x.violation("refreshBefore to be a time of RFC 3339", "%s", wire.Shown(*before))
		}
		now := x.date
		if now.IsZero() {
			now = time.Now().Add(-time.Minute) // allow for clocks that differ
		}
		if !at.After(now) {
			return id, x.violation("refreshBefore in the future", "%s", wire.Shown(*before))
		}
	}
	if _, err := stringOrNull(x, in, "cursor"); err != nil {
		return id, err
	}
	_, err = boolMember(x, in, "truncated")
	return id, err
}

// summary describes a post in a few words.
func (p post) summary() string {
	if p.kind != "" {
		return "a " + wire.Shown(p.kind)
	}
	return fmt.Sprintf("an occurrence of %d bytes", len(p.body))
}
