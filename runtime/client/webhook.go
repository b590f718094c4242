package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

const (
	// maxRefresh is the maximum wait before a refresh.
	maxRefresh = 24 * time.Hour
	// abandonedAfter is how long deliveries must have failed before the client assumes that the server may have
	// abandoned events. It is shorter than any sensible retry schedule.
	abandonedAfter = time.Minute
	// unsubscribeTimeout is the timeout for an unsubscribe request.
	unsubscribeTimeout = 3 * time.Second
	// failedRotationGrace is how long a new secret is still accepted after its refresh failed. The server may have
	// received it.
	failedRotationGrace = 24 * time.Hour
)

// errNoLongerOffered is returned by a leg if its mode is no longer offered in the server's list.
var errNoLongerOffered = errors.New("client: the event type is no longer offered by webhook")

// runWebhook subscribes and refreshes the subscription (CLI-5). Events arrive through the callback, even between two
// legs.
func runWebhook(ctx context.Context, s *subscription, sess *session) error {
	if s.callback == nil {
		cb, err := s.openCallback(ctx)
		if err != nil {
			return err
		}
		s.callback = cb
	}
	cb := s.callback
	for {
		lifetime, err := cb.subscribe(ctx, sess)
		if err != nil {
			return err
		}
		t := time.NewTimer(cb.refreshAfter(lifetime))
		select {
		case <-t.C:
		case told := <-cb.terminated:
			t.Stop()
			cb.mayExist = false
			if err := cb.drain(s.ctx); err != nil {
				return err
			}
			return told
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
		if lifetime == 0 {
			if err := s.checkOffered(ctx, sess); err != nil {
				return err
			}
		}
	}
}

// refreshAfter returns the wait before the next refresh, about two thirds of the lifetime. A lifetime of 0 means no
// expiry.
func (cb *callback) refreshAfter(lifetime time.Duration) time.Duration {
	if lifetime == 0 {
		return cb.w.Refresh
	}
	return min(lifetime*2/3-rand.N(lifetime/20), maxRefresh)
}

// checkOffered returns an error if the server no longer offers webhook delivery for the type. Otherwise a subscription
// without expiry would not detect this.
func (s *subscription) checkOffered(ctx context.Context, sess *session) error {
	s.c.catalog.invalidateOld()
	d, err := s.c.describe(ctx, sess, s.name)
	if err != nil {
		return err
	}
	if slices.Contains(d.Delivery, wire.ModeWebhook) {
		return nil
	}
	return errNoLongerOffered
}

// subscribe creates or refreshes the subscription and returns its lifetime, or 0 if it does not expire.
func (cb *callback) subscribe(ctx context.Context, sess *session) (time.Duration, error) {
	if err := cb.unsubscribeFormer(ctx, sess); err != nil {
		return 0, err
	}
	from := cb.s.resumeCursor()
	res, err := cb.refresh(ctx, sess)
	if err != nil {
		return 0, err
	}
	if from != nil && res.status.mayHaveAbandoned() {
		// The server's watermark may be past the abandoned events, but our cursor is not.
		cb.s.log.Info("deliveries were failing, subscribing again from the cursor")
		cb.formerURL = cb.url
		if err := cb.unsubscribeFormer(ctx, sess); err != nil {
			return 0, err
		}
		if res, err = cb.refresh(ctx, sess); err != nil {
			return 0, err
		}
	}
	cb.lapses = time.Time{}
	if res.lifetime > 0 {
		cb.lapses = time.Now().Add(res.lifetime)
	}
	return res.lifetime, cb.settle(ctx, res)
}

// limitPause shortens a pause to leave time for a refresh before the grant expires.
func (cb *callback) limitPause(pause time.Duration) time.Duration {
	if left := time.Until(cb.lapses); left >= time.Second && pause > left {
		return left * 4 / 5
	}
	return pause
}

// unsubscribeFormer ends an earlier process's subscription, so the next subscribe starts from the cursor.
func (cb *callback) unsubscribeFormer(ctx context.Context, sess *session) error {
	if cb.formerURL == "" {
		return nil
	}
	err := cb.s.unsubscribe(ctx, sess, cb.formerURL)
	var refusal *events.Error
	if errors.As(err, &refusal) && cb.formerURL == cb.url {
		// If the subscription cannot be ended, refresh it instead.
		cb.s.log.Warn("the server did not end the previous subscription", "err", err)
		err = nil
	}
	if err == nil {
		cb.formerURL = ""
	}
	return err
}

// subscribeParams is wire.SubscribeParams with a TTL that can also be null.
type subscribeParams struct {
	wire.SubscribeParams
	TTL json.RawMessage `json:"ttlMs"`
}

// refresh calls events/subscribe once, with a new secret if the current one is due for rotation. The endpoint and the
// store receive the secret before the server does.
func (cb *callback) refresh(ctx context.Context, sess *session) (res *subscribeResult, err error) {
	s := cb.s
	old := cb.endpoint.Secret()
	if cb.mayExist && cb.w.Rotate > 0 && time.Since(cb.rotated) >= cb.w.Rotate {
		cb.endpoint.Rotate(webhook.NewSecret(), cb.w.Grace)
		defer func() {
			if err == nil {
				cb.rotated = time.Now()
				return
			}
			cb.endpoint.Rotate(old, failedRotationGrace)
		}()
	}
	if err := cb.save(ctx, func(*clientstore.Callback) {}); err != nil {
		return nil, err
	}
	p := subscribeParams{TTL: json.RawMessage("null"), SubscribeParams: wire.SubscribeParams{Name: s.name, Arguments: s.args, Cursor: s.resumeCursor(),
		Delivery: wire.Delivery{Mode: wire.ModeWebhook, URL: cb.url, Secret: cb.endpoint.Secret().Text()}}}
	if cb.w.TTL > 0 {
		p.TTL = fmt.Append(nil, cb.w.TTL.Milliseconds())
	}
	if p.Cursor != nil {
		p.MaxAgeMs = s.maxAge()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.c.opts.CallTimeout, errTimeout(wire.MethodSubscribe))
	defer cancel()
	before := cb.mayExist
	cb.mayExist = true // the server may have it, whatever the response
	asked, heard, own := time.Now(), cb.heard.Load(), s.newCall(nil)
	raw, err := sess.call(ctx, wire.MethodSubscribe, p, own)
	if err != nil {
		var refusal *events.Error
		if errors.As(err, &refusal) {
			cb.mayExist = before // a refusal leaves nothing behind (ERR-2)
		}
		return nil, err
	}
	// Subtract the round-trip time, as if the server had granted the lifetime at the time of the request.
	if res, err = readSubscribed(raw, own.serverTime().Add(-time.Since(asked)), cb.w.TTL); err != nil {
		return nil, err
	}
	res.quiet = cb.heard.Load() == heard
	return res, nil
}

// settle applies the server's response. It saves the start position before the first delivery is possible.
func (cb *callback) settle(ctx context.Context, res *subscribeResult) error {
	s := cb.s
	err := cb.save(ctx, func(c *clientstore.Callback) {
		c.Subscription = res.ID
		if c.Start == "" && res.Cursor != nil {
			c.Start = *res.Cursor
		}
	})
	if err != nil {
		return err
	}
	again := s.isAccepted() || cb.resumed
	lost := again && res.status == nil && (cb.reportsStatus || cb.resumed) && res.Cursor == nil && s.resumeCursor() == nil
	cb.resumed = false
	s.mu.Lock()
	s.status.Delivery, s.status.RefreshBefore = res.status, res.refreshBefore
	s.mu.Unlock()
	if res.status != nil {
		cb.reportsStatus = true
		if e := res.status.LastError; e != "" {
			s.log.Warn("deliveries are failing", "lastError", e, "active", res.status.Active)
		}
	}
	switch {
	case lost:
		err = cb.inTurn(ctx, func() error { return s.queueGap(ctx, nil) })
	case res.Truncated:
		err = cb.inTurn(ctx, func() error { return s.handleTruncation(ctx, res.Cursor, res.Cursor) })
	case res.quiet:
		s.moveCursor(res.Cursor)
	}
	if err != nil {
		return err
	}
	cb.endpoint.Activate(res.ID, cb.handleDelivery)
	s.recordAccepted()
	s.recordProgress()
	return nil
}

// unsubscribe ends the subscription with the given callback URL. It returns nil if the subscription does not exist
// (D6).
func (s *subscription) unsubscribe(ctx context.Context, sess *session, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, min(s.c.opts.CallTimeout, unsubscribeTimeout), errTimeout(wire.MethodUnsubscribe))
	defer cancel()
	p := wire.UnsubscribeParams{Name: s.name, Arguments: s.args, Delivery: wire.Delivery{URL: url}}
	_, err := sess.call(ctx, wire.MethodUnsubscribe, p, s.newCall(nil))
	if errors.Is(err, events.ErrNotFound) {
		return nil
	}
	return err
}

// releaseCallback closes the callback of s, which then accepts no more deliveries. It unsubscribes, unless the server
// ended the subscription or the subscription is kept for a later process.
func (s *subscription) releaseCallback() {
	cb := s.callback
	if cb == nil {
		return
	}
	s.callback = nil
	defer cb.endpoint.Close()
	cb.stop()
	cb.pumped.Wait()
	if s.ctx.Err() == nil {
		// Hand out acknowledged bodies before the subscription ends.
		if err := cb.drain(s.ctx); err != nil && s.ctx.Err() == nil {
			s.log.Error("reading received events failed", "err", err)
		}
	}
	cb.close()
	if cb.w.Keep && cb.w.Callbacks != nil && cb.key != "" && s.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), unsubscribeTimeout)
	defer cancel()
	for _, url := range []string{cb.formerURL, cb.url} {
		if url == "" || url == cb.url && !cb.mayExist {
			continue
		}
		sess, err := s.c.liveSession(ctx, false)
		if err == nil {
			err = s.unsubscribe(ctx, sess, url)
		}
		if err != nil {
			// The subscription expires, or a later process unsubscribes.
			s.log.Warn("unsubscribing failed", "err", err)
			return
		}
	}
	if err := cb.deleteRecord(ctx); err != nil {
		s.log.Warn("forgetting a callback failed", "err", err)
	}
}
