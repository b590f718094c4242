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

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An order for many subscriptions is stored as a state before it is appended to the log. The next owner of a shard
// reads the states, because the previous one may have died before it executed the order (REP-13).
const (
	revokedPrefix = "revoked/" // followed by a hash of the principal
	gapPrefix     = "gap/"     // followed by the event type
	// statePage is the number of states that one call reads.
	statePage = 500
	// sweepStates is how often a process that gives orders deletes old states.
	sweepStates = 10 * time.Minute
)

// A revoked is the state of a principal: its latest revocations, each for other event types.
type revoked struct {
	Principal string      `json:"principal"`
	All       []revokedAt `json:"all"`
}

type revokedAt struct {
	Names []string  `json:"names,omitempty"`
	At    time.Time `json:"at"`
}

// A gapped is the state of an event type: when an operator last raised a gap.
type gapped struct {
	At time.Time `json:"at"`
}

// keep stores the effect of an order for many subscriptions.
func (l *Log) keep(ctx context.Context, o *Order) error {
	switch {
	case o.Kind == Revoke:
		if err := l.sweep(ctx, o.At); err != nil {
			return err
		}
		hash := sha256.Sum256([]byte(o.Principal))
		return l.putState(ctx, revokedPrefix+hex.EncodeToString(hash[:]), func(value []byte) any {
			var r revoked
			if json.Unmarshal(value, &r) != nil || r.Principal != o.Principal {
				r = revoked{Principal: o.Principal}
			}
			r.All = slices.DeleteFunc(r.All, func(a revokedAt) bool { return old(a.At, o.At) || slices.Equal(a.Names, o.Names) })
			r.All = append(r.All, revokedAt{o.Names, o.At})
			return r
		})
	case o.Kind == Gap && o.Of() == "":
		return l.putState(ctx, gapPrefix+o.Target.Event, func([]byte) any { return gapped{o.At} })
	}
	return nil
}

// sweep deletes old states from time to time, because it may be long until a shard changes its owner.
func (l *Log) sweep(ctx context.Context, now time.Time) error {
	last := l.swept.Load()
	if now.Sub(time.Unix(0, last)) < sweepStates || !l.swept.CompareAndSwap(last, now.UnixNano()) {
		return nil
	}
	_, err := l.Standing(ctx)
	return err
}

// old reports whether processes that were away since then call the author's hooks for everything anyway.
func old(at, now time.Time) bool { return now.Sub(at) > engine.ControlAge }

// putState changes the value of a state; nil stands for an absent state.
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

// Standing returns the effects of recent orders for many subscriptions, and deletes old ones.
func (l *Log) Standing(ctx context.Context) (s subscriber.Standing, err error) {
	s.Gaps = map[string]time.Time{}
	now := l.o.Now()
	for _, prefix := range []string{revokedPrefix, gapPrefix} {
		for after := ""; ; {
			page, err := l.o.Store.States(ctx, prefix, after, statePage)
			if err != nil {
				return s, fmt.Errorf("reading the effects of orders: %w", err)
			}
			for i := range page {
				if after = page[i].Key; l.collect(&s, &page[i], now) {
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

// collect adds a state to s. It returns false if all of the state is old.
func (l *Log) collect(s *subscriber.Standing, state *engine.State, now time.Time) (recent bool) {
	if event, ok := strings.CutPrefix(state.Key, gapPrefix); ok {
		var g gapped
		if json.Unmarshal(state.Value, &g) != nil || old(g.At, now) {
			return false
		}
		s.Gaps[event] = g.At
		return true
	}
	var r revoked
	if json.Unmarshal(state.Value, &r) != nil {
		return false
	}
	for _, a := range r.All {
		if !old(a.At, now) {
			s.Revoked = append(s.Revoked, subscriber.Revocation{Principal: r.Principal, Names: a.Names, At: a.At})
			recent = true
		}
	}
	return recent
}
