package client

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/ring"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// receivedBatch is the maximum number of stored bodies read in one call.
const receivedBatch = 64

// storeMessage stores a message unless the application has already received it.
func (cb *callback) storeMessage(ctx context.Context, d webhook.Delivery) error {
	s := cb.s
	s.mu.Lock()
	known := d.Type == "" && s.seen.has(d.Occurrence.EventID)
	s.mu.Unlock()
	fresh := false
	if !known {
		var err error
		if fresh, err = cb.w.Received.PutReceived(ctx, cb.key, clientstore.Received{EventID: receivedID(&d), Body: d.Body}); err != nil {
			return err
		}
	}
	s.mu.Lock()
	if !fresh {
		s.status.Duplicates++
	}
	if cursor := d.Cursor(); checkCursor(cursor) == nil && cursor != nil && *cursor != "" {
		s.cursor = *cursor
	}
	s.mu.Unlock()
	wake(cb.wake)
	return nil
}

// Prefixes of stored-message IDs that are not plain eventIds.
const (
	prefixEnvelope = "envelope "
	prefixEvent    = "event "
)

// receivedID returns the ID under which a message is stored. For an occurrence it is the eventId, so the occurrence is
// stored once regardless of its webhook-id. If the eventId starts with a prefix, prefixEvent is prepended. For an
// envelope it is the webhook-id with prefixEnvelope (D10). Different messages never have the same ID.
func receivedID(d *webhook.Delivery) string {
	id := d.Occurrence.EventID
	switch {
	case d.Type != "":
		return prefixEnvelope + d.ID
	case strings.HasPrefix(id, prefixEnvelope), strings.HasPrefix(id, prefixEvent):
		return prefixEvent + id
	}
	return id
}

// pump moves stored bodies into the inbox as fast as the application consumes them.
func (cb *callback) pump(ctx context.Context) {
	for n := 0; ; n++ {
		err := cb.drain(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			cb.s.failed(err)
			cb.s.log.Error("reading received events failed", "err", err)
			if sleep(ctx, cb.s.c.opts.Backoff.delay(n)) != nil {
				return
			}
			continue
		}
		n = 0
		select {
		case <-cb.wake:
		case <-ctx.Done():
			return
		}
	}
}

// drain moves the stored bodies into the inbox in order.
func (cb *callback) drain(ctx context.Context) error {
	if !cb.storesBodies() {
		return nil
	}
	return cb.inTurn(ctx, func() error { return cb.enqueueAll(ctx) })
}

// enqueueAll adds the stored bodies to the inbox. The caller is in its turn.
func (cb *callback) enqueueAll(ctx context.Context) error {
	for {
		bodies, err := cb.w.Received.Received(ctx, cb.key, cb.after, receivedBatch)
		if err != nil || len(bodies) == 0 {
			return err
		}
		for _, b := range bodies {
			if err := cb.enqueueStored(ctx, b); err != nil {
				return err
			}
			cb.after = b.Sequence
		}
	}
}

// enqueueStored decodes a stored body, as the receiver did when it arrived, and adds it to the inbox.
func (cb *callback) enqueueStored(ctx context.Context, b clientstore.Received) error {
	d, err := webhook.ParseDelivery(webhook.Stamp{ID: b.EventID}, b.Body)
	if err == nil && (d.Type == "" || d.Type == wire.EnvelopeGap) {
		return cb.enqueue(ctx, &d, b.Sequence)
	}
	cb.s.log.Error("a stored body is not a message", "eventId", b.EventID)
	cb.s.inbox.advance(nil, b.Sequence)
	return nil
}

// storedRing returns the stored secrets that have not expired, or nil if no such secret is stored. The endpoint then
// creates a new secret, which the next subscribe sends to the server.
func (cb *callback) storedRing() webhook.Ring {
	if len(cb.state.Secrets) == 0 {
		return nil
	}
	keys, err := ring.Of(cb.state.Secrets)
	if err != nil {
		cb.s.log.Error("the stored secrets are unusable", "error", err)
		return nil
	}
	now := time.Now()
	return slices.DeleteFunc(keys, func(k webhook.Key) bool { return !k.Until.IsZero() && !now.Before(k.Until) })
}

func sameCallback(a, b clientstore.Callback) bool {
	return a.URL == b.URL && a.Path == b.Path && a.Subscription == b.Subscription && a.Start == b.Start &&
		slices.Equal(a.EventIDs, b.EventIDs) && slices.EqualFunc(a.Secrets, b.Secrets, func(a, b store.Secret) bool {
		return bytes.Equal(a.Key, b.Key) && a.NotAfter.Equal(b.NotAfter)
	})
}
