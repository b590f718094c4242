// Package lease tracks subscribers independently of open connections. The type [Members] counts the holders of a
// subscription, so the author is notified of the first holder and the last holder (SRV-3). The type [Leases] tracks
// pollers between two polls (POLL-8). The package makes no compatibility promise.
package lease

import (
	"context"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
)

// A Host provides the author's hooks and the memory quota.
type Host interface {
	// Hears reports whether the author has hooks for the start and end of subscriptions.
	Hears(a eventtype.Arguments) bool
	// Subscribed calls OnSubscribe, which rejects the subscription if it returns an error.
	Subscribed(ctx context.Context, sub eventtype.Subscription, a eventtype.Arguments) error
	// Unsubscribed calls OnUnsubscribe.
	Unsubscribed(sub eventtype.Subscription, a eventtype.Arguments)
	// Refused calls the hooks for a poller and returns their error, or nil if they allow it.
	Refused(ctx context.Context, principal string, a eventtype.Arguments) *events.Error
	// Take charges n bytes to a principal. It returns an error if that would exceed the quota.
	Take(principal string, n int) error
	// Give releases a charge (CAP-5).
	Give(principal string, n int)
}

// Members notifies the host when a subscription id gets its first holder and when it loses its last holder (SRV-3). For
// example, two streams of a principal with the same subscription cause only one notification of each kind.
type Members struct {
	Host Host

	mu   sync.Mutex
	byID map[string]*member
}

type member struct {
	holders int // guarded by Members.mu

	hooks chan struct{} // capacity 1: held while a hook runs
	on    bool          // guarded by hooks
}

// Join makes the caller a holder of the subscription. For the first holder, it calls OnSubscribe and returns its error.
func (m *Members) Join(ctx context.Context, sub eventtype.Subscription, a eventtype.Arguments) error {
	if !m.Host.Hears(a) {
		return nil
	}
	m.mu.Lock()
	if m.byID == nil {
		m.byID = map[string]*member{}
	}
	one := m.byID[sub.ID]
	if one == nil {
		one = &member{hooks: make(chan struct{}, 1)}
		m.byID[sub.ID] = one
	}
	one.holders++
	m.mu.Unlock()
	err := func() error {
		select {
		case one.hooks <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-one.hooks }()
		if one.on {
			return nil
		}
		if err := m.Host.Subscribed(ctx, sub, a); err != nil {
			return err
		}
		one.on = true
		return nil
	}()
	if err != nil {
		m.Leave(sub, a)
	}
	return err
}

// Leave removes a holder that was added by Join. For the last holder, it calls OnUnsubscribe.
func (m *Members) Leave(sub eventtype.Subscription, a eventtype.Arguments) {
	m.removeHolder(sub, a, true)
}

// Release is like [Members.Leave], but does not call OnUnsubscribe. It is used for a subscription that continues in
// another process.
func (m *Members) Release(sub eventtype.Subscription, a eventtype.Arguments) {
	m.removeHolder(sub, a, false)
}

func (m *Members) removeHolder(sub eventtype.Subscription, a eventtype.Arguments, ends bool) {
	m.mu.Lock()
	one := m.byID[sub.ID]
	if one == nil {
		m.mu.Unlock()
		return
	}
	one.holders--
	last := one.holders == 0
	m.mu.Unlock()
	if !last {
		return
	}
	one.hooks <- struct{}{}
	defer func() { <-one.hooks }()
	m.mu.Lock()
	last = one.holders == 0 && m.byID[sub.ID] == one
	m.mu.Unlock()
	if !last {
		return // another holder joined meanwhile
	}
	if one.on {
		one.on = false
		if ends {
			m.Host.Unsubscribed(sub, a)
		}
	}
	m.mu.Lock()
	if one.holders == 0 {
		delete(m.byID, sub.ID)
	}
	m.mu.Unlock()
}

// Holding returns the number of holders by subscription id.
func (m *Members) Holding() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	holders := make(map[string]int, len(m.byID))
	for id, one := range m.byID {
		holders[id] = one.holders
	}
	return holders
}
