package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var ownerTests = []test{
	{"REP-10: delivery goes on where its progress says", testGoesOn},
	{"REP-7: a claim fences each write of the owner before", testFences},
	{"REP-7: a claim between two writes stops the owner before", testClaimBetween},
	{"Progress of a thousand subscriptions is stored, and others are reported", testSaveMany},
	{"Progress of an earlier generation is not stored", testLateProgress},
	{"A checkpoint does not move back in its epoch", testCheckpoint},
	{"An end is judged by the latest subscription", testOwnerEnds},
	{"A record that cannot be read holds up no other one", testUnreadable},
	{"Attempts are stored with progress, the latest first", testAttempts},
	{"Attempts are bounded per subscription by its owner", testAttemptsPerSubscription},
}

func testGoesOn(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	for i := range 3 {
		p.admit(t, i, "ann")
	}
	o := ok(p.takeOver(t.Context()))(t)
	if base, live := o.base("sub_0001"); base != 1 || !live { // open at its own base
		t.Errorf("it begins after %d, %v", base, live)
	}
	o.settle(50)
	must(t, o.save(t.Context(), 50))
	o.match("sub_0001", 54)
	must(t, o.save(t.Context(), 60))
	p.admit(t, 3, "ann") // at whichever process, whenever
	next := ok(w.process(t).takeOver(t.Context()))(t)
	for id, want := range map[string]store.Position{"sub_0000": 60, "sub_0001": 54, "sub_0002": 60, "sub_0003": 1} {
		if base, live := next.base(id); base != want || !live {
			t.Errorf("%s goes on after %d, want %d", id, base, want)
		}
	}
	is(t, o.save(t.Context(), 70), ledger.ErrFenced)
}

// update returns an update that closes a subscription at a base.
func update(s ledger.Subscription, base store.Position) ledger.Update {
	return ledger.Update{ID: s.ID, Status: ledger.Status{Generation: s.Generation, Progress: store.Progress{Epoch: epoch, Base: base}}}
}

func testFences(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	s, ended := a.admit(t, 1, "ann"), a.admit(t, 2, "ann")
	o := a.own(t)
	other := subscription(t, a, 3, "ann")
	other.Shard.Number = 0
	other = ok(a.Admit(t.Context(), other, store.Progress{Base: 3}, ledger.Quota{}))(t)
	gone, err := o.SaveProgress(t.Context(), []ledger.Update{update(other, 99), update(s, 8)}, &ledger.Checkpoint{Epoch: epoch, Position: 8})
	if must(t, err); !slices.Equal(gone, []string{other.ID}) {
		t.Errorf("gone are %v", gone)
	}
	if states := ok(o.States(t.Context(), other.ID, s.ID))(t); len(states) != 1 || states[0].Status.Progress.Base != 8 {
		t.Errorf("the shard has %+v", states)
	}
	ok(a.End(t.Context(), ended.ID, ended.Generation, revoked))(t)
	before := a.stored(t, s.ID)
	heir := b.own(t)
	_, err = o.SaveProgress(t.Context(), []ledger.Update{update(s, 9)}, nil)
	is(t, err, ledger.ErrFenced)
	_, err = o.SaveProgress(t.Context(), nil, &ledger.Checkpoint{Epoch: epoch, Position: 99})
	is(t, err, ledger.ErrFenced)
	_, err = o.End(t.Context(), before, nil)
	is(t, err, ledger.ErrFenced)
	_, err = o.End(t.Context(), before, &revoked)
	is(t, err, ledger.ErrFenced)
	is(t, o.Remove(t.Context(), ended.ID, ended.Generation), ledger.ErrFenced)
	if got := b.stored(t, s.ID); got.Revision != before.Revision || got.Status.Progress.Base != 8 {
		t.Errorf("%+v", got)
	}
	b.stored(t, ended.ID)
	if c := ok(heir.Checkpoint(t.Context()))(t); c.Position != 8 {
		t.Errorf("the checkpoint is %+v", c)
	}
}

func testClaimBetween(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	s := p.admit(t, 1, "ann")
	owned := p.own(t)
	for range 5 {
		stopped := make(chan store.Position)
		base := p.stored(t, s.ID).Status.Progress.Base
		go func() {
			for {
				_, err := owned.SaveProgress(context.Background(), []ledger.Update{update(s, base+1)}, nil)
				if err != nil {
					if !errors.Is(err, ledger.ErrFenced) {
						t.Error(err)
					}
					stopped <- base
					return
				}
				base++
			}
		}()
		next := w.process(t)
		nextOwned := next.own(t)
		after := next.stored(t, s.ID).Status.Progress.Base
		if last := <-stopped; last != after {
			t.Fatalf("it was at %d when it was claimed, the owner before has written up to %d", after, last)
		}
		p, owned = next, nextOwned
	}
}

func testSaveMany(t *testing.T, c Config) {
	w := c.world(t)
	commits := 0
	p := w.faulty(t, faults.Plan{Before: func(c faults.Call) faults.Fault {
		if c.Commit != nil {
			commits++
		}
		return faults.None
	}})
	const n = 1000
	var updates []ledger.Update
	var all []ledger.Subscription
	for i := range n {
		all = append(all, p.admit(t, i, "ann"))
		updates = append(updates, update(all[i], 40))
	}
	o := p.own(t)
	must(t, o.Each(t.Context(), func([]ledger.State) error { return nil }))
	must(t, p.Remove(t.Context(), all[17].ID, all[17].Generation))
	must(t, p.Remove(t.Context(), all[18].ID, all[18].Generation))
	again := all[18]
	again.Generation, again.Revision = 99, 0
	ok(p.Admit(t.Context(), again, store.Progress{Base: 55}, ledger.Quota{}))(t)
	updates = append(updates, ledger.Update{ID: "sub_none", Status: ledger.Status{Generation: 1}}, update(all[5], 41))
	commits = 0
	gone, err := o.SaveProgress(t.Context(), updates, &ledger.Checkpoint{Epoch: epoch, Position: 40})
	slices.Sort(gone)
	if must(t, err); !slices.Equal(gone, []string{all[17].ID, all[18].ID, "sub_none"}) || commits > 3 {
		t.Errorf("gone are %v, %d commits", gone, commits)
	}
	seen := 0
	must(t, o.Each(t.Context(), func(states []ledger.State) error {
		for _, s := range states {
			seen++
			if want := map[string]store.Position{again.ID: 55, all[5].ID: 41}[s.ID]; s.Status.Progress.Base != max(want, 40) {
				t.Errorf("%s is at %d", s.ID, s.Status.Progress.Base)
			}
		}
		return nil
	}))
	if c := ok(o.Checkpoint(t.Context()))(t); seen != n-1 || c.Position != 40 {
		t.Errorf("%d subscriptions, checkpoint %v", seen, c)
	}
}

func testLateProgress(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	s := p.admit(t, 1, "ann")
	o := p.own(t)
	ok(o.SaveProgress(t.Context(), []ledger.Update{update(s, 5)}, nil))(t)
	next := s
	next.Generation, next.Revision = 99, p.stored(t, s.ID).Revision
	ok(w.process(t).Admit(t.Context(), next, store.Progress{Base: 50}, ledger.Quota{}))(t)
	for reread := range 2 {
		gone, err := o.SaveProgress(t.Context(), []ledger.Update{update(s, 9)}, nil)
		if must(t, err); !slices.Equal(gone, []string{s.ID}) {
			t.Errorf("gone are %v", gone)
		}
		if got := p.stored(t, s.ID); got.Status.Generation != 99 || got.Status.Progress.Base != 50 {
			t.Errorf("after reading %d times: %+v", reread, got.Status)
		}
		ok(o.States(t.Context(), s.ID))(t)
	}
	if gone := ok(o.SaveProgress(t.Context(), []ledger.Update{update(next, 60)}, nil))(t); gone != nil {
		t.Errorf("gone are %v", gone)
	}
}

func testCheckpoint(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	o := p.own(t)
	for _, step := range []struct{ save, want ledger.Checkpoint }{
		{ledger.Checkpoint{Epoch: 1, Position: 5}, ledger.Checkpoint{Epoch: 1, Position: 5}},
		{ledger.Checkpoint{Epoch: 1, Position: 4}, ledger.Checkpoint{Epoch: 1, Position: 5}},
		{ledger.Checkpoint{Epoch: 1, Position: 9}, ledger.Checkpoint{Epoch: 1, Position: 9}},
		{ledger.Checkpoint{Epoch: 2, Position: 3}, ledger.Checkpoint{Epoch: 2, Position: 3}},
	} {
		ok(o.SaveProgress(t.Context(), nil, &step.save))(t)
		if got := ok(o.Checkpoint(t.Context()))(t); got != step.want {
			t.Errorf("after %v it is %v, want %v", step.save, got, step.want)
		}
	}
	// Another owner of this process has not read it before.
	ok(p.Own(o.Hold()).SaveProgress(t.Context(), nil, &ledger.Checkpoint{Epoch: 2, Position: 1}))(t)
	if got := ok(o.Checkpoint(t.Context()))(t); got.Position != 3 {
		t.Errorf("it is %v", got)
	}
}

func testOwnerEnds(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	a, b := p.admit(t, 1, "ann"), p.admit(t, 2, "ann")
	o := p.own(t)
	read := ok(o.States(t.Context(), a.ID, b.ID))(t)
	later := p.now(t).Add(time.Hour)
	_, _, err := w.process(t).Change(t.Context(), a.ID, func(s *ledger.Subscription) bool { s.ExpiresAt = later; return true })
	must(t, err)
	if ok(o.End(t.Context(), read[0], nil))(t) || !p.stored(t, a.ID).ExpiresAt.Equal(later) {
		t.Error("a refreshed one has ended")
	}
	if !ok(o.End(t.Context(), read[1], nil))(t) || ok(o.End(t.Context(), read[1], nil))(t) {
		t.Error("it does not end once")
	}
	if _, there, err := p.State(t.Context(), b.ID); there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
	read = ok(o.States(t.Context(), a.ID))(t)
	must(t, o.Remove(t.Context(), a.ID, a.Generation)) // it has not ended
	if !ok(o.End(t.Context(), read[0], &revoked))(t) || p.stored(t, a.ID).Ended == nil {
		t.Error("it has not ended")
	}
	must(t, o.Remove(t.Context(), a.ID, a.Generation+1))
	p.stored(t, a.ID)
	must(t, o.Remove(t.Context(), a.ID, a.Generation))
	if _, there, err := p.State(t.Context(), a.ID); there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
}

// damage overwrites a record.
func (w *world) damage(t *testing.T, key string) {
	t.Helper()
	r := ok(w.raw.Get(t.Context(), store.Latest, key))(t)[0]
	ok(w.raw.Commit(t.Context(), &store.Commit{Call: 1, Writes: []store.Write{{Key: key, On: r.Revision, Value: store.Bytes("{")}}}))(t)
}

func testUnreadable(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	for i := range 4 {
		p.admit(t, i, "ann")
	}
	first := ok(p.takeOver(t.Context()))(t)
	first.settle(20)
	must(t, first.save(t.Context(), 20))
	w.damage(t, "sub/sub_0001")
	w.damage(t, "pro/"+topic+"/1/sub_0002")
	o := ok(w.process(t).takeOver(t.Context()))(t)
	if len(o.live) != 2 {
		t.Errorf("live are %d", len(o.live))
	}
	must(t, o.save(t.Context(), 30))
	page, _, err := p.List(t.Context(), ledger.Selection{}, "", 10)
	must(t, err)
	var ids []string
	for _, s := range page {
		if s.Unreadable != "" {
			ids = append(ids, s.ID)
		}
	}
	if len(page) != 4 || !slices.Equal(ids, []string{"sub_0001"}) { // the owner has replaced the other one's status
		t.Errorf("unreadable are %v of %d", ids, len(page))
	}
	for _, id := range []string{"sub_0001", "sub_0002"} {
		states := ok(o.records.States(t.Context(), id))(t)
		if p := states[0].Status.Progress; !p.Open || p.Base != 20 {
			t.Errorf("%s is stored as %+v", id, p)
		}
	}
	must(t, p.Revoke(t.Context(), "ann", revoked))
	w.damage(t, w.keys(t, "revoked/")[0])
	if o := ok(w.process(t).takeOver(t.Context()))(t); len(o.live) != 3 {
		t.Errorf("with a damaged revocation live are %d", len(o.live))
	}
	must(t, p.Revoke(t.Context(), "ann", revoked, "other"))
	if r := ok(p.Revoked(t.Context(), "ann"))(t); len(r["ann"].ByTopic) != 1 {
		t.Errorf("revoked are %v", r)
	}
	w.damage(t, "mark/"+topic+"/1")
	next := ok(w.process(t).takeOver(t.Context()))(t)
	if base, live := next.base("sub_0000"); base != 20 || !live || next.checkpoint != (ledger.Checkpoint{}) {
		t.Errorf("without a checkpoint it goes on after %d, %v", base, live)
	}
	must(t, next.save(t.Context(), 30))
	must(t, p.Retain(t.Context()))
	if err := p.Remove(t.Context(), "sub_0001", 1<<32+1); !errors.Is(err, ledger.ErrDamaged) {
		t.Errorf("removing a damaged one: %v", err)
	}
	t.Cleanup(func() { w.purge(t) })
}

// purge deletes all records, so that there is nothing to audit.
func (w *world) purge(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for {
		page, err := w.raw.Scan(ctx, "", "", 400)
		must(t, err)
		if len(page) == 0 {
			return
		}
		c := &store.Commit{Call: 1}
		for _, r := range page {
			c.Writes = append(c.Writes, store.Write{Key: r.Key, On: r.Revision})
		}
		_, err = w.raw.Commit(ctx, c)
		must(t, err)
	}
}

// attempt returns an attempt at a second.
func attempt(from time.Time, second int) operator.Attempt {
	return operator.Attempt{EventID: fmt.Sprint("evt_", second), Event: topic, Number: 1, At: from.Add(time.Duration(second) * time.Second), Status: 204}
}

// made stores attempts of a subscription at seconds, in one update.
func made(t *testing.T, o *ledger.Owned, s ledger.Subscription, seconds ...int) {
	t.Helper()
	u := update(s, 9)
	for _, second := range seconds {
		u.Attempts = append(u.Attempts, attempt(s.CreatedAt, second))
	}
	ok(o.SaveProgress(t.Context(), []ledger.Update{u}, nil))(t)
}

// seconds returns the seconds of the attempts of a subscription.
func seconds(t *testing.T, p *process, s ledger.Subscription, limit int) (seconds []int) {
	t.Helper()
	for _, a := range ok(p.Attempts(t.Context(), s.ID, limit))(t) {
		seconds = append(seconds, int(a.At.Sub(s.CreatedAt)/time.Second))
		if want := attempt(s.CreatedAt, seconds[len(seconds)-1]); a.EventID != want.EventID || a.Status != want.Status || !a.At.Equal(want.At) {
			t.Errorf("%+v, want %+v", a, want)
		}
	}
	return seconds
}

func testAttempts(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	s, other := p.admit(t, 1, "ann"), p.admit(t, 2, "ann")
	o := p.own(t)
	made(t, o, s, 1, 2)
	made(t, o, s, 3)
	made(t, o, s)
	made(t, o, other, 4)
	for limit, want := range map[int][]int{0: nil, 1: {3}, 2: {3, 2}, 10: {3, 2, 1}} {
		if got := seconds(t, p, s, limit); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", limit, got, want)
		}
	}
	late := s
	late.Generation++
	made(t, o, late, 5)
	if got := seconds(t, p, s, 10); len(got) != 3 {
		t.Errorf("attempts of another generation: %v", got)
	}
	must(t, p.Remove(t.Context(), s.ID, s.Generation))
	if got := ok(p.Attempts(t.Context(), s.ID, 10))(t); got != nil {
		t.Errorf("an unknown one has %v", got)
	}
	s.Revision, s.CreatedAt = 0, s.CreatedAt.Add(10*time.Second)
	ok(p.Admit(t.Context(), s, store.Progress{}, ledger.Quota{}))(t)
	if got := seconds(t, p, s, 10); got != nil {
		t.Errorf("a subscription that was created later has %v", got)
	}
	must(t, p.Remove(t.Context(), s.ID, s.Generation))
	must(t, p.DeleteAttempts(t.Context(), s.ID))
	s.CreatedAt = s.CreatedAt.Add(-10 * time.Second)
	ok(p.Admit(t.Context(), s, store.Progress{}, ledger.Quota{}))(t)
	if got := seconds(t, p, s, 10); got != nil {
		t.Errorf("a new one has %v", got)
	}
	if got := seconds(t, p, other, 10); !slices.Equal(got, []int{4}) {
		t.Errorf("the other one has %v", got)
	}
}

func testAttemptsPerSubscription(t *testing.T, c Config) {
	w := c.world(t)
	p, err := w.start(t, faults.Plan{}, ledger.Options{Attempts: ledger.AttemptBounds{PerSubscription: 5, MaxAge: time.Hour, Total: 1000}})
	must(t, err)
	s := p.admit(t, 1, "ann")
	o := p.own(t)
	for i := range 43 {
		made(t, o, s, i)
		got := seconds(t, p, s, 1000)
		if len(got) > 10 || len(got) < min(i+1, 5) || got[0] != i {
			t.Fatalf("after %d: %v", i, got)
		}
	}
	none, err := w.start(t, faults.Plan{}, ledger.Options{Attempts: ledger.AttemptBounds{Total: 1}})
	must(t, err)
	made(t, none.own(t), s, 99)
	if got := seconds(t, p, s, 1); got[0] == 99 {
		t.Error("an attempt was stored that was not to be")
	}
}
