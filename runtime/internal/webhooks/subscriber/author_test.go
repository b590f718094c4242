package subscriber_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
)

// A host is the server of a process.
type host struct{ p *process }

func (h host) Type(event string) (eventtype.Type, bool) { return h.p.typ, event == "e" }
func (h host) Join(ctx context.Context, sub eventtype.Subscription, a eventtype.Arguments) error {
	return h.p.members.Join(ctx, sub, a)
}
func (h host) Leave(sub eventtype.Subscription, a eventtype.Arguments)   { h.p.members.Leave(sub, a) }
func (h host) Release(sub eventtype.Subscription, a eventtype.Arguments) { h.p.members.Release(sub, a) }
func (h host) Refused(ctx context.Context, principal string, a eventtype.Arguments) *events.Error {
	return h.p.author.Refused(ctx, principal, a)
}
func (h host) Asks(eventtype.Arguments) bool { return true }
func (h host) Current() bool                 { return !h.p.deaf.Load() }
func (h host) Take(principal string, n int) error {
	h.Keep(principal, n)
	return nil
}
func (h host) Keep(principal string, n int) {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	h.p.charged[principal] += n
}
func (h host) Give(principal string, n int) { h.Keep(principal, -n) }

// An author has hooks, and notes what they hear. It implements [lease.Host].
type author struct {
	mu      sync.Mutex
	heard   []string
	accepts func(ctx context.Context, sub eventtype.Subscription) error // OnSubscribe
	refuses func(principal string) *events.Error                        // when it is asked again
	leaves  func(sub eventtype.Subscription)                            // OnUnsubscribe
}

// set changes the hooks.
func (a *author) set(change func(a *author)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
}

func (a *author) Hears(eventtype.Arguments) bool { return true }

func (a *author) Subscribed(ctx context.Context, sub eventtype.Subscription, _ eventtype.Arguments) error {
	a.mu.Lock()
	accepts := a.accepts
	a.mu.Unlock()
	err := hook.Place{Hook: "OnSubscribe", Event: "e"}.Run(func() error {
		if accepts == nil {
			return nil
		}
		return accepts(ctx, sub)
	})
	if err == nil {
		a.note(map[bool]string{false: "on ", true: "restored "}[sub.Restored] + sub.Principal)
	}
	return err
}

func (a *author) Unsubscribed(sub eventtype.Subscription, _ eventtype.Arguments) {
	a.mu.Lock()
	leaves := a.leaves
	a.mu.Unlock()
	if leaves != nil {
		leaves(sub)
	}
	a.note("off " + sub.Principal)
}

func (a *author) Refused(_ context.Context, principal string, _ eventtype.Arguments) *events.Error {
	a.mu.Lock()
	refuses := a.refuses
	a.mu.Unlock()
	if refuses == nil {
		return nil
	}
	return refuses(principal)
}

func (a *author) Take(string, int) error { return nil }
func (a *author) Give(string, int)       {}

func (a *author) note(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = append(a.heard, line)
}

// hooks fails unless those of the process have heard that, in all.
func (p *process) hooks(what string, want ...string) {
	p.f.t.Helper()
	synctest.Wait()
	p.author.mu.Lock()
	defer p.author.mu.Unlock()
	if got := slices.Sorted(slices.Values(p.author.heard)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		p.f.t.Errorf("%s: hooks heard %q, want %q", what, got, want)
	}
}

// heardOf returns what the hooks have heard of a principal, in order.
func (a *author) heardOf(principal string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var heard []string
	for _, line := range a.heard {
		if what, of, _ := strings.Cut(line, " "); of == principal {
			heard = append(heard, what)
		}
	}
	return strings.Join(heard, " ")
}
