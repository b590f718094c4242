package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func checkStatus(ctx context.Context, r *run) error {
	x, err := r.mustSubscribe(ctx, r.hook, r.mainSubscription.callback, nil)
	if err != nil {
		return err
	}
	status := member(x.answer.result, "deliveryStatus")
	if status == nil {
		return skipf("the server sends no deliveryStatus, which it need not")
	}
	if active := member(status, "active"); string(active) != "true" {
		return x.violation("active to be true", "%s", orNone(status))
	}
	for _, name := range []string{"lastDeliveryAt", "lastError"} {
		last, err := stringOrNull(x, status, name)
		if v, ok := errors.AsType[*verdict.Violation](err); ok {
			v.Mild = member(status, name) == nil
			return v
		}
		if last == nil || name == "lastError" {
			continue
		}
		if _, err := time.Parse(time.RFC3339Nano, *last); err != nil {
			return x.violation("lastDeliveryAt to be a time or null", "%s", wire.Shown(*last))
		}
	}
	return nil
}

// refreshBefore returns the refreshBefore member of a result. It returns false if the result has no such member.
func refreshBefore(x *exchange) (at time.Time, ok bool) {
	err := json.Unmarshal(member(x.answer.result, "refreshBefore"), &at)
	return at, err == nil && !at.IsZero()
}

// clockSlack is the amount by which a lifetime may exceed the requested one, to allow for latency and rounding.
const clockSlack = 3 * time.Second

// grant refreshes the main subscription with a ttlMs, or without one if it is absent, and returns the lifetime by the
// server's clock.
func (r *run) grant(ctx context.Context, more map[string]any) (*exchange, time.Duration, error) {
	x, err := r.subscribe(ctx, r.hook, r.mainSubscription.callback, more)
	if err != nil {
		return x, 0, err
	}
	ttl, given := more["ttlMs"]
	if _, err := grantedID(x, given && ttl == nil); err != nil {
		return x, 0, err
	}
	until, _ := refreshBefore(x)
	now := x.date
	if now.IsZero() {
		now = time.Now()
	}
	return x, until.Sub(now), nil
}

// checkGrants compares lifetimes with the ones that were asked for, with the shortest and with the usual one.
func checkGrants(ctx context.Context, r *run) error {
	_, usual, err := r.grant(ctx, nil)
	if err != nil {
		return err
	}
	_, least, err := r.grant(ctx, map[string]any{"ttlMs": 1})
	if err != nil {
		return err
	}
	for _, ttl := range []any{0, -5, int64(1) << 52, nil} {
		if _, _, err := r.grant(ctx, map[string]any{"ttlMs": ttl}); err != nil {
			return err
		}
	}
	for _, ttl := range []time.Duration{time.Minute, 10 * time.Minute, usual / 2} {
		x, granted, err := r.grant(ctx, map[string]any{"ttlMs": ttl.Milliseconds()})
		switch {
		case err != nil:
			return err
		case granted > max(ttl, least)+clockSlack:
			return x.violation(fmt.Sprintf("at most the %v that were asked for, or the least of %v", ttl, least.Round(time.Second)), "%v", granted.Round(time.Second))
		case ttl > time.Minute && ttl < usual-2*clockSlack && granted > usual-clockSlack:
			return x.violation(fmt.Sprintf("at most the %v that were asked for", ttl.Round(time.Second)), "the %v that are granted without ttlMs", granted.Round(time.Second))
		}
	}
	return nil
}

func checkGrantAnew(ctx context.Context, r *run) error {
	c, x, _, err := r.subscribeNew(ctx, nil)
	if err != nil {
		return err
	}
	before, _ := refreshBefore(x)
	pause(ctx, 5*r.o.pace.settle) // longer than a rounding to seconds
	if x, err = r.mustSubscribe(ctx, r.hook, c, nil); err != nil {
		return err
	}
	if after, _ := refreshBefore(x); !after.After(before) {
		return x.violation("a refreshBefore later than "+before.Format(time.RFC3339Nano), "%s", after.Format(time.RFC3339Nano))
	}
	return nil
}
