package client

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A DeliveryStatus is what the server found at the last refresh about its deliveries to a webhook
// subscription. See HOOK-8.
type DeliveryStatus struct {
	// Active is false when deliveries had been suspended; the refresh has taken them up again.
	Active bool
	// LastDeliveryAt is when an event was last accepted; zero when none was.
	LastDeliveryAt time.Time
	// LastError is the category of the last failure, "" when there was none.
	LastError string
	// FailedSince is when the present run of failures began; zero when the last attempt succeeded.
	FailedSince time.Time
	// Throttled tells that the server holds deliveries back; RetryAfter for how long.
	Throttled  bool
	RetryAfter time.Duration
}

// abandoned reports whether the server may have given up events.
func (d *DeliveryStatus) abandoned() bool {
	return d != nil && (!d.Active || !d.FailedSince.IsZero() && time.Since(d.FailedSince) > abandonedAfter)
}

// A subscribeResult is the result of events/subscribe, read leniently.
type subscribeResult struct {
	ID             string          `json:"id"`
	RefreshBefore  json.RawMessage `json:"refreshBefore"`
	Cursor         *string         `json:"cursor"`
	Truncated      bool            `json:"truncated"`
	DeliveryStatus json.RawMessage `json:"deliveryStatus"`

	refreshBefore time.Time     // zero for none
	lifetime      time.Duration // 0 for ever
	status        *DeliveryStatus
	// quiet tells that nothing was delivered while the answer was under way: then its cursor is
	// news, else an older one.
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
	// What cannot be read may be short; servers grant the default, or what was asked for.
	r.lifetime = defaultTTL
	if ttl > 0 {
		r.lifetime = min(ttl, defaultTTL)
	}
	var text string
	if wire.Decode(r.RefreshBefore, &text) == nil {
		if at := readTime(text); !at.IsZero() {
			// A grant is never above what was asked for, but by the floor; more is a difference of
			// the clocks.
			r.refreshBefore, r.lifetime = at, at.Sub(now)
			if ttl > 0 {
				r.lifetime = min(r.lifetime, max(ttl, minLifetime))
			}
		}
	}
	switch {
	case r.lifetime < -clockDifference:
		// Nobody grants the past: the clocks differ, and what was granted is at least the floor.
		r.lifetime = minLifetime
	case r.lifetime < shortestLifetime:
		return unusable(fmt.Errorf("it grants %v, too short to refresh in time; want at least %v",
			r.lifetime.Round(time.Millisecond), shortestLifetime))
	}
	return &r, nil
}

const (
	// maxID bounds a subscription's id in bytes; it has to fit a header.
	maxID = 256
	// minLifetime is what servers grant at least (SUB-6).
	minLifetime = time.Minute
	// shortestLifetime is the shortest grant that is refreshed in time.
	shortestLifetime = 2 * time.Second
	// clockDifference is how far in the past a grant is a difference of clocks rather than one that
	// is too short.
	clockDifference = time.Minute
)

func readTime(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// readDeliveryStatus returns nil for none. Members of an unknown shape are passed over: they only
// inform.
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
