package client

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A DeliveryStatus is the server's report, at the last refresh, on its deliveries to a webhook subscription. See
// HOOK-8.
type DeliveryStatus struct {
	// Active is false if deliveries had been suspended; the refresh has resumed them.
	Active bool
	// LastDeliveryAt is when an event was last accepted; zero if never.
	LastDeliveryAt time.Time
	// LastError is the category of the last failure, "" before the first failure.
	LastError string
	// FailedSince is when the current run of failures began; zero if the last attempt succeeded.
	FailedSince time.Time
	// Throttled says whether the server holds deliveries back, RetryAfter for how long.
	Throttled  bool
	RetryAfter time.Duration
}

// abandoned reports whether the server may have given up events.
func (d *DeliveryStatus) abandoned() bool {
	return d != nil && (!d.Active || !d.FailedSince.IsZero() && time.Since(d.FailedSince) > abandonedAfter)
}

// A subscribeResult is the result of events/subscribe, decoded leniently.
type subscribeResult struct {
	ID             string          `json:"id"`
	RefreshBefore  json.RawMessage `json:"refreshBefore"`
	Cursor         *string         `json:"cursor"`
	Truncated      bool            `json:"truncated"`
	DeliveryStatus json.RawMessage `json:"deliveryStatus"`

	refreshBefore time.Time     // zero if the subscription does not expire
	lifetime      time.Duration // 0 if the subscription does not expire
	status        *DeliveryStatus
	// quiet says that nothing was delivered while the response was in flight; only then is its cursor the newest.
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
	// The lifetime is unreadable and may be short; servers grant the default or the requested time.
	r.lifetime = defaultTTL
	if ttl > 0 {
		r.lifetime = min(ttl, defaultTTL)
	}
	var text string
	if wire.Decode(r.RefreshBefore, &text) == nil {
		if at := readTime(text); !at.IsZero() {
			// A grant never exceeds the request, except for the floor; any excess comes from a difference of the
			// clocks.
			r.refreshBefore, r.lifetime = at, at.Sub(now)
			if ttl > 0 {
				r.lifetime = min(r.lifetime, max(ttl, minLifetime))
			}
		}
	}
	switch {
	case r.lifetime < -clockDifference:
		// A server does not grant the past: the clocks differ, and the real grant is at least the floor.
		r.lifetime = minLifetime
	case r.lifetime < shortestLifetime:
		return unusable(fmt.Errorf("it grants %v, too short to refresh in time; want at least %v",
			r.lifetime.Round(time.Millisecond), shortestLifetime))
	}
	return &r, nil
}

const (
	// maxID bounds a subscription's ID in bytes; it must fit into a header.
	maxID = 256
	// minLifetime is the shortest lifetime that servers grant (SUB-6).
	minLifetime = time.Minute
	// shortestLifetime is the shortest grant that can be refreshed in time.
	shortestLifetime = 2 * time.Second
	// clockDifference is how far in the past a grant must end to be attributed to a difference of the clocks instead of
	// a grant that is too short.
	clockDifference = time.Minute
)

func readTime(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// readDeliveryStatus returns nil without a status. It ignores members of an unexpected type: they are only
// informative.
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
