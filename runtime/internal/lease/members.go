// Package lease counts subscribers beyond open connections: [Members] counts the holders of a subscription, so that the
// author hears of the first and of the last one (SRV-3), and [Leases] remembers pollers between their polls (POLL-8). It
// makes no promise of compatibility.
package lease

import (
	"context"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
)

// A Host provides the author's hooks and the memory quota.
type Host interface {
	// Hears reports whether the author has hooks for the begin and end of subscriptions.
	Hears(a eventtype.Arguments) bool
	// Subscribed calls OnSubscribe, whose error refuses the subscription. Unsubscribed calls OnUnsubscribe.
	Subscribed(ctx context.Context, sub eventtype.Subscription, a eventtype.Arguments) error
	Unsubscribed(sub eventtype.Subscription, a eventtype.Arguments)
	// Refused calls the hooks for a poller and returns their refusal, or nil.
	Refused(ctx context.Context, principal string, a eventtype.Arguments) *events.Error
	// Take charges n bytes to a principal, or returns an error at the quota; Give releases a charge (CAP-5).
	Take(principal string, n int) error
	Give(principal string, n int)
}

// Members notifies the host of the first and the last holder of a subscription id, once each (SRV-3), even if two
// streams of a principal have the same subscription.
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

// Join makes the caller a holder, unless it returns an error.
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

// Leave ends a hold of Join. It may call OnUnsubscribe.
func (m *Members) Leave(sub eventtype.Subscription, a eventtype.Arguments) { m.part(sub, a, true) }

// Release ends a hold of Join without a hook, for a subscription that continues in another process.
func (m *Members) Release(sub eventtype.Subscription, a eventtype.Arguments) { m.part(sub, a, false) }

func (m *Members) part(sub eventtype.Subscription, a eventtype.Arguments, ends bool) {
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

// Holding returns the number of holders of each subscription, by id.
func (m *Members) Holding() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	holders := make(map[string]int, len(m.byID))
	for id, one := range m.byID {
		holders[id] = one.holders
	}
	return holders
}
