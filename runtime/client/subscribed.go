package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A DeliveryStatus is what the server found at the last refresh about its deliveries to a webhook
// subscription (HOOK-8).
type DeliveryStatus struct {
	// Active is false when deliveries had been suspended; the refresh has taken them up again.
	Active bool
	// LastDeliveryAt is when an event was last accepted; zero when none was.
	LastDeliveryAt time.Time
	// LastError is the category of the last failure, "" when there was none.
	LastError string
	// FailedSince is since when nothing but failures happened; zero when the last attempt went well.
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

func readSubscribed(raw json.RawMessage, asked time.Time, ttl time.Duration) (*subscribeResult, error) {
	var r subscribeResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("client: result of %s: %w", wire.MethodSubscribe, err)
	}
	if r.ID == "" {
		return nil, fmt.Errorf("client: result of %s: %w", wire.MethodSubscribe, errors.New("no id"))
	}
	r.status = readDeliveryStatus(r.DeliveryStatus)
	if string(r.RefreshBefore) == "null" {
		return &r, nil
	}
	r.lifetime = max(ttl, defaultTTL)
	var text string
	if json.Unmarshal(r.RefreshBefore, &text) == nil {
		if at := readTime(text); !at.IsZero() {
			// A grant is never above what was asked for, but by the floor; more is a difference of
			// the clocks.
			r.refreshBefore, r.lifetime = at, at.Sub(asked)
			if ttl > 0 {
				r.lifetime = min(r.lifetime, ttl)
			}
		}
	}
	r.lifetime = max(r.lifetime, minLifetime)
	return &r, nil
}

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
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return nil
	}
	d := &DeliveryStatus{Active: true}
	text := func(name string) (s string) {
		_ = json.Unmarshal(members[name], &s)
		return s
	}
	_ = json.Unmarshal(members["active"], &d.Active)
	d.LastDeliveryAt, d.FailedSince = readTime(text("lastDeliveryAt")), readTime(text("failedSince"))
	if d.LastError = text("lastError"); d.LastError == "" && len(members["lastError"]) > 0 && string(members["lastError"]) != "null" {
		d.LastError = string(members["lastError"])
	}
	_ = json.Unmarshal(members["throttled"], &d.Throttled)
	var ms float64
	if json.Unmarshal(members["retryAfterMs"], &ms) == nil && ms > 0 {
		d.RetryAfter = time.Duration(min(ms, float64(maxWait.Milliseconds()))) * time.Millisecond
	}
	return d
}
