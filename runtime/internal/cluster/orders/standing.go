package orders

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An order for many subscriptions is stored as a state before it is appended to the log. The next owner of a shard
// reads the states, because the previous owner might have crashed before it executed the order (REP-13).
const (
	revokedPrefix = "revoked/" // followed by a hash of the principal
	gapPrefix     = "gap/"     // followed by the event type
	// statePage is the maximum number of states per read.
	statePage = 500
	// sweepInterval is the interval at which a process that sends orders deletes old states.
	sweepInterval = 10 * time.Minute
)

// A revokedState contains the latest revocations of a principal, at most one for each list of event types.
type revokedState struct {
	Principal string      `json:"principal"`
	All       []revokedAt `json:"all"`
}

// A lastingOrder is the stored part of an order. Time only determines when the state is deleted.
type lastingOrder struct {
	At   store.ControlPosition `json:"at"`
	Time time.Time             `json:"time"`
}

type revokedAt struct {
	Names []string `json:"names,omitempty"`
	lastingOrder
}

// storeEffect stores the effect of an order that affects many subscriptions.
func (l *Log) storeEffect(ctx context.Context, o *Order, now time.Time) error {
	lasting := lastingOrder{o.At, now}
	switch {
	case o.Kind == Revoke:
		if err := l.deleteOldStates(ctx, now); err != nil {
			return err
		}
		hash := sha256.Sum256([]byte(o.Principal))
		return l.putState(ctx, revokedPrefix+hex.EncodeToString(hash[:]), func(value []byte) any {
			var r revokedState
			if json.Unmarshal(value, &r) != nil || r.Principal != o.Principal {
				r = revokedState{Principal: o.Principal}
			}
			r.All = slices.DeleteFunc(r.All, func(a revokedAt) bool { return isOutdated(a.Time, now) || slices.Equal(a.Names, o.Names) })
			r.All = append(r.All, revokedAt{o.Names, lasting})
			return r
		})
	case o.Kind == Gap && o.Of() == "":
		return l.putState(ctx, gapPrefix+o.Target.Event, func([]byte) any { return lasting })
	}
	return nil
}

// deleteOldStates deletes old states, at most once per sweepInterval. A new owner of a shard also deletes them, but the
// owner might not change for a long time.
func (l *Log) deleteOldStates(ctx context.Context, now time.Time) error {
	last := l.swept.Load()
	if now.Sub(time.Unix(0, last)) < sweepInterval || !l.swept.CompareAndSwap(last, now.UnixNano()) {
		return nil
	}
	_, err := l.Standing(ctx)
	return err
}

// isOutdated reports whether the log might no longer retain orders from the time at. A process that has missed such
// orders rechecks all live subscriptions with the author's hooks anyway.
func isOutdated(at, now time.Time) bool { return now.Sub(at) > engine.ControlAge }

// putState replaces the value of a state with the result of change. If the state does not exist, change receives nil.
func (l *Log) putState(ctx context.Context, key string, change func(value []byte) any) error {
	for {
		found, err := l.o.Store.States(ctx, key, "", 1)
		if err != nil {
			return err
		}
		s := engine.State{Key: key}
		if len(found) > 0 && found[0].Key == key {
			s = found[0]
		}
		if s.Value, err = json.Marshal(change(s.Value)); err != nil {
			return err
		}
		if _, err = l.o.Store.PutState(ctx, s); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// Standing returns the stored effects of recent orders and deletes outdated effects.
func (l *Log) Standing(ctx context.Context) (s subscriber.Standing, err error) {
	s.Gaps = map[string]store.ControlPosition{}
	now := l.o.Now()
	for _, prefix := range []string{revokedPrefix, gapPrefix} {
		for after := ""; ; {
			page, err := l.o.Store.States(ctx, prefix, after, statePage)
			if err != nil {
				return s, fmt.Errorf("reading the effects of orders: %w", err)
			}
			for i := range page {
				if after = page[i].Key; l.addState(&s, &page[i], now) {
					continue
				}
				if err := l.o.Store.DeleteState(ctx, page[i].Key, page[i].Revision); err != nil && !errors.Is(err, store.ErrConflict) {
					return s, fmt.Errorf("deleting old effects of orders: %w", err)
				}
			}
			if len(page) < statePage {
				break
			}
		}
	}
	return s, nil
}

// addState adds the recent entries of a state to s. It returns false if the state has no recent entries.
func (l *Log) addState(s *subscriber.Standing, state *engine.State, now time.Time) (recent bool) {
	if event, ok := strings.CutPrefix(state.Key, gapPrefix); ok {
		var g lastingOrder
		if json.Unmarshal(state.Value, &g) != nil || isOutdated(g.Time, now) {
			return false
		}
		s.Gaps[event] = g.At
		return true
	}
	var r revokedState
	if json.Unmarshal(state.Value, &r) != nil {
		return false
	}
	for _, a := range r.All {
		if !isOutdated(a.Time, now) {
			s.Revoked = append(s.Revoked, subscriber.Revocation{Principal: r.Principal, Names: a.Names, At: a.At})
			recent = true
		}
	}
	return recent
}
