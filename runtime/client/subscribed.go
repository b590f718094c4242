package client

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A DeliveryStatus describes the server's deliveries to a webhook subscription, as reported at the last refresh. See
// HOOK-8.
type DeliveryStatus struct {
	// Active is false if deliveries were suspended until the refresh, which has resumed them.
	Active bool
	// LastDeliveryAt is the time when an event was last accepted, or zero if none was.
	LastDeliveryAt time.Time
	// LastError is the category of the last failure, or "" before the first one.
	LastError string
	// FailedSince is the time of the first failure since the last successful attempt; zero if the last attempt
	// succeeded.
	FailedSince time.Time
	// Throttled reports whether the server is delaying deliveries. RetryAfter is how long the delay lasts.
	Throttled  bool
	RetryAfter time.Duration
}

// mayHaveAbandoned reports whether the server may have abandoned events.
func (d *DeliveryStatus) mayHaveAbandoned() bool {
	return d != nil && (!d.Active || !d.FailedSince.IsZero() && time.Since(d.FailedSince) > abandonedAfter)
}

// A subscribeResult is the leniently decoded result of events/subscribe.
type subscribeResult struct {
	ID             string          `json:"id"`
	RefreshBefore  json.RawMessage `json:"refreshBefore"`
	Cursor         *string         `json:"cursor"`
	Truncated      bool            `json:"truncated"`
	DeliveryStatus json.RawMessage `json:"deliveryStatus"`

	refreshBefore time.Time     // zero if the subscription does not expire
	lifetime      time.Duration // 0 if the subscription does not expire
	status        *DeliveryStatus
	// quiet is true if nothing was delivered while the response was in flight. Only then is the response's cursor the
	// newest.
	quiet bool
}

func readSubscribed(raw json.RawMessage, now time.Time, ttl time.Duration) (*subscribeResult, error) {
	var r subscribeResult
	unusable := func(err error) (*subscribeResult, error) {
		return nil, &AnswerError{Method: wire.MethodSubscribe, Err: err}
	}
	if err := wire.Decode(raw, &r); err != nil {
		return unusable(err)
	}
	if n := len(r.ID); n == 0 || n > maxID {
		return unusable(fmt.Errorf("the id has %d bytes, want 1 to %d", n, maxID))
	}
	if err := checkCursor(r.Cursor); err != nil {
		return unusable(err)
	}
	r.status = readDeliveryStatus(r.DeliveryStatus)
	if string(r.RefreshBefore) == "null" {
		return &r, nil
	}
	// Unless refreshBefore can be parsed, assume the shorter of the default and the requested lifetime.
	r.lifetime = defaultTTL
	if ttl > 0 {
		r.lifetime = min(ttl, defaultTTL)
	}
	var text string
	if wire.Decode(r.RefreshBefore, &text) == nil {
		if at := readTime(text); !at.IsZero() {
			// Except for the minimum, a grant never exceeds the request. Any excess is caused by different clocks.
			r.refreshBefore, r.lifetime = at, at.Sub(now)
			if ttl > 0 {
				r.lifetime = min(r.lifetime, max(ttl, minLifetime))
			}
		}
	}
	switch {
	case r.lifetime < -clockDifference:
		// A grant does not end in the past, so the clocks differ. The actual grant is at least the minimum.
		r.lifetime = minLifetime
	case r.lifetime < shortestLifetime:
		return unusable(fmt.Errorf("it grants %v, too short to refresh in time; want at least %v",
			r.lifetime.Round(time.Millisecond), shortestLifetime))
	}
	return &r, nil
}

const (
	// maxID is the maximum length of a subscription's ID in bytes; it must fit into a header.
	maxID = 256
	// minLifetime is the shortest lifetime that servers grant (SUB-6).
	minLifetime = time.Minute
	// shortestLifetime is the shortest lifetime that can be refreshed in time.
	shortestLifetime = 2 * time.Second
	// clockDifference is the age of an expired grant above which the clocks are assumed to differ. A grant that expired
	// more recently was too short.
	clockDifference = time.Minute
)

func readTime(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// readDeliveryStatus decodes a delivery status, or returns nil if raw contains none. It ignores members of an
// unexpected type, because they are only informative.
func readDeliveryStatus(raw json.RawMessage) *DeliveryStatus {
	members, err := wire.DecodeMembers(raw)
	if err != nil {
		return nil
	}
	d := &DeliveryStatus{Active: true}
	text := func(name string) (s string) {
		_ = members.Read(name, &s)
		return s
	}
	_ = members.Read("active", &d.Active)
	d.LastDeliveryAt, d.FailedSince = readTime(text("lastDeliveryAt")), readTime(text("failedSince"))
	if d.LastError = text("lastError"); d.LastError == "" && len(members["lastError"]) > 0 && string(members["lastError"]) != "null" {
		d.LastError = string(members["lastError"])
	}
	_ = members.Read("throttled", &d.Throttled)
	var ms float64
	if members.Read("retryAfterMs", &ms) == nil && ms > 0 {
		d.RetryAfter = time.Duration(min(ms, float64(maxWait.Milliseconds()))) * time.Millisecond
	}
	return d
}
