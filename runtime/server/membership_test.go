package server

import (
	"context"
	"testing"
	"testing/synctest"
)

// membershipBed is a server whose hooks of "e" write to a journal, with a subscription of it.
func membershipBed(t *testing.T, off func()) (m *memberships, sub Subscription, a arguments, hooks *journal) {
	s := newServer(t, Options{})
	hooks = &journal{}
	register(t, s, "e", Hooks[filterArgs, incident]{
		OnSubscribe: func(context.Context, Subscription, *filterArgs) error { hooks.add("on"); return nil },
		OnUnsubscribe: func(context.Context, Subscription, *filterArgs) {
			hooks.add("off")
			off()
		},
	})
	a, err := s.types["e"].current().parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &s.members, identity("push", "ann", a), a, hooks
}

func mustJoin(t *testing.T, m *memberships, sub Subscription, a arguments) {
	t.Helper()
	if err := m.join(t.Context(), sub, a); err != nil {
		t.Error(err)
	}
}

// SRV-3: who joins while the last one is about to leave keeps the subscription on, and no hook runs.
func TestJoinBeforeTheLastHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, sub, a, hooks := membershipBed(t, func() {})
		mustJoin(t, m, sub, a)
		ms := m.byID[sub.ID]
		ms.hooks <- struct{}{} // another hook runs
		go m.leave(sub, a)
		synctest.Wait()
		go mustJoin(t, m, sub, a)
		synctest.Wait()
		<-ms.hooks
		synctest.Wait()
		wantStrings(t, "hooks while there is a holder", hooks.lines(), "on")
		m.leave(sub, a)
		wantStrings(t, "hooks", hooks.lines(), "on", "off")
		if len(m.byID) != 0 {
			t.Errorf("%d memberships are left", len(m.byID))
		}
	})
}

// SRV-3: who joins while OnUnsubscribe runs is a holder anew afterwards, and its own leaving is told.
func TestJoinWhileTheLastLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		m, sub, a, hooks := membershipBed(t, func() { <-slow })
		mustJoin(t, m, sub, a)
		go m.leave(sub, a)
		synctest.Wait()
		go mustJoin(t, m, sub, a)
		synctest.Wait()
		close(slow)
		synctest.Wait()
		wantStrings(t, "hooks", hooks.lines(), "on", "off", "on")
		m.leave(sub, a)
		wantStrings(t, "hooks", hooks.lines(), "on", "off", "on", "off")
	})
}

// SRV-3: two that leave after each other's turn was decided: the second finds another membership under the
// id, of somebody who came in between, and leaves it alone.
func TestLateLeaveSparesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, sub, a, hooks := membershipBed(t, func() {})
		mustJoin(t, m, sub, a)
		ms := m.byID[sub.ID]
		ms.hooks <- struct{}{}
		go m.leave(sub, a)
		synctest.Wait()
		m.mu.Lock()
		delete(m.byID, sub.ID) // as the first of the two does
		m.mu.Unlock()
		ms.on = false
		mustJoin(t, m, sub, a)
		<-ms.hooks
		synctest.Wait()
		m.leave(sub, a)
		wantStrings(t, "hooks", hooks.lines(), "on", "on", "off")
	})
}
