package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var faultTests = []test{
	{"REP-10: a take-over misses no change that is made at any of its calls", testTakeOver},
	{"An expiry and a refresh at the same time agree", testExpiryMeetsRefresh},
	{"A list shows a subscription with its own status", testListMeetsChanges},
	{"A process that crashes at any call leaves all that was answered", testCrash},
	{"The checkpoint is stored last, wherever a save ends", testCheckpointComesLast},
	{"Each operation takes effect once, whatever becomes of its answers", testAnswers},
	{"A late copy of an admission does not undo a removal", testLateAdmission},
	{"Counters and records agree after any faults", testRandomFaults},
	{"Only listed families of records have several writers", testWriters},
}

// during runs f once for each call that a process makes between arm and finish. The process that f starts with the plan
// calls act before this call.
func during(t *testing.T, f func(t *testing.T, before func(act func()) (plan faults.Plan, arm, finish func()))) {
	for call, more := 0, true; more && !t.Failed(); call++ {
		t.Run(fmt.Sprint("call ", call), func(t *testing.T) {
			f(t, func(act func()) (faults.Plan, func(), func()) {
				armed, n, acted := false, 0, false
				once := func() {
					if !acted {
						acted = true
						act()
					}
				}
				plan := faults.Plan{Before: func(faults.Call) faults.Fault {
					if !armed {
						return faults.None
					}
					if n++; n > call {
						once()
					}
					return faults.None
				}}
				return plan, func() { armed = true }, func() { more = acted; once() }
			})
		})
	}
}

func testTakeOver(t *testing.T, c Config) {
	during(t, func(t *testing.T, before func(func()) (faults.Plan, func(), func())) {
		w := c.world(t)
		a := w.process(t)
		for i := range 6 {
			a.admit(t, i, []string{"ann", "bob"}[i%2])
		}
		old := ok(a.takeOver(t.Context()))(t)
		old.settle(20)
		must(t, old.save(t.Context(), 20))
		other := w.process(t)
		plan, arm, finish := before(func() {
			must(t, other.Revoke(t.Context(), "ann", revoked))
			other.admit(t, 6, "carol")
			must(t, other.Remove(t.Context(), "sub_0001", 1<<32+1))
			ok(other.End(t.Context(), "sub_0003", 3<<32+1, revoked))(t)
			_, _, err := other.Change(t.Context(), "sub_0005", func(s *ledger.Subscription) bool {
				s.Rewind = &ledger.Rewind{Number: 1, To: 5}
				return true
			})
			must(t, err)
		})
		p := w.faulty(t, plan)
		arm()
		o := ok(p.takeOver(t.Context()))(t)
		finish()
		must(t, o.follow(t.Context()))
		if want := map[string]int64{"sub_0000": 1, "sub_0002": 1, "sub_0004": 1, "sub_0003": 1}; !maps.Equal(p.told, want) {
			t.Errorf("told are %v", p.told)
		}
		if live := slices.Sorted(maps.Keys(o.live)); !slices.Equal(live, []string{"sub_0005", "sub_0006"}) {
			t.Errorf("live are %v", live)
		}
		if base, _ := o.base("sub_0005"); base != 5 {
			t.Errorf("the replay begins after %d", base)
		}
		if got := w.keys(t, "sub/"); len(got) != 2 {
			t.Errorf("stored are %v", got)
		}
	})
}

func testExpiryMeetsRefresh(t *testing.T, c Config) {
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprint("replaced ", replaced), func(t *testing.T) {
			during(t, func(t *testing.T, before func(func()) (faults.Plan, func(), func())) {
				w := c.world(t)
				other := w.process(t)
				s := subscription(t, other, 1, "ann")
				s.ExpiresAt = other.now(t).Add(time.Hour)
				later, refreshed := s.ExpiresAt.Add(24*time.Hour), false
				plan, arm, finish := before(func() {
					if !replaced {
						var err error
						_, refreshed, err = other.Change(t.Context(), s.ID, func(s *ledger.Subscription) bool { s.ExpiresAt = later; return true })
						must(t, err)
						return
					}
					must(t, other.Remove(t.Context(), s.ID, s.Generation))
					next := s
					next.Generation, next.ExpiresAt = 99, later
					ok(other.Admit(t.Context(), next, store.Progress{}, ledger.Quota{Own: 1}))(t)
					refreshed = true
				})
				p := w.faulty(t, plan)
				ok(p.Admit(t.Context(), s, store.Progress{}, ledger.Quota{Own: 1}))(t)
				o := ok(p.takeOver(t.Context()))(t)
				p.faults.Skew(2 * time.Hour)
				arm()
				must(t, o.reread(t.Context(), s.ID))
				finish()
				must(t, o.follow(t.Context()))
				_, live := o.base(s.ID)
				got, there, err := p.State(t.Context(), s.ID)
				must(t, err)
				if live != refreshed || there != refreshed || there && !got.ExpiresAt.Equal(later) {
					t.Errorf("refreshed %v, live %v, stored %v: %+v", refreshed, live, there, got)
				}
			})
		})
	}
}

func testListMeetsChanges(t *testing.T, c Config) {
	during(t, func(t *testing.T, before func(func()) (faults.Plan, func(), func())) {
		w := c.world(t)
		other := w.process(t)
		s, gone := other.admit(t, 1, "ann"), other.admit(t, 2, "ann")
		plan, arm, finish := before(func() {
			next := s
			next.Generation = 99
			ok(other.Admit(t.Context(), next, store.Progress{}, ledger.Quota{}))(t)
			must(t, other.Remove(t.Context(), gone.ID, gone.Generation))
		})
		p := w.faulty(t, plan)
		arm()
		page, _, err := p.List(t.Context(), ledger.Selection{}, "", 10)
		must(t, err)
		finish()
		for _, x := range page {
			if x.Unreadable != "" || x.Status.Generation != x.Generation || x.ID == "" {
				t.Errorf("%+v", x)
			}
		}
	})
}

// A script records the operations that were answered before a process crashed.
type script struct {
	admitted []ledger.Subscription
	offered  store.Position
	done     map[string]bool
}

// A scriptStep is an operation of a script.
type scriptStep struct {
	name string
	do   func(ctx context.Context, p *process, s *script) error
}

// steps are the operations of a script after the admissions.
var steps = []scriptStep{
	{"removed", func(ctx context.Context, p *process, s *script) error {
		return p.Remove(ctx, s.admitted[1].ID, s.admitted[1].Generation)
	}},
	{"rewound", func(ctx context.Context, p *process, s *script) error {
		_, _, err := p.Change(ctx, s.admitted[3].ID, func(s *ledger.Subscription) bool {
			s.Rewind = &ledger.Rewind{Number: 1, To: 10}
			return true
		})
		return err
	}},
	{"ended", func(ctx context.Context, p *process, s *script) error {
		_, err := p.End(ctx, s.admitted[5].ID, s.admitted[5].Generation, revoked)
		return err
	}},
	{"revoked", func(ctx context.Context, p *process, _ *script) error { return p.Revoke(ctx, "ann", revoked) }},
	{"verified", func(ctx context.Context, p *process, _ *script) error {
		return p.AdmitVerification(ctx, store.Verification{Principal: "ann", URL: "u"}, ledger.Quota{Own: 1, All: 5})
	}},
	{"unverified", func(ctx context.Context, p *process, _ *script) error { return p.DeleteVerification(ctx, "ann", "u") }},
	{"claimed", func(ctx context.Context, p *process, _ *script) error {
		_, _, err := p.ClaimAction(ctx, ledger.Action{Key: "a"})
		return err
	}},
	{"schema", func(ctx context.Context, p *process, _ *script) error {
		return p.AddSchema(ctx, topic, ledger.SchemaVersion{Fingerprint: "f"}, 0)
	}},
	{"retained", func(ctx context.Context, p *process, _ *script) error { return p.Retain(ctx) }},
}

// run runs the script until an error.
func (s *script) run(t *testing.T, w *world, plan faults.Plan) error {
	p, err := w.start(t, plan, ledger.Options{})
	if err != nil {
		return err
	}
	for i := range 6 {
		sub := subscription(t, &process{Ledger: ok(ledger.Open(t.Context(), w.raw, ledger.Options{}))(t)}, i, []string{"ann", "bob"}[i%2])
		sub, err := p.Admit(t.Context(), sub, store.Progress{Epoch: epoch}, ledger.Quota{Own: 3, All: 300})
		if err != nil {
			return err
		}
		s.admitted = append(s.admitted, sub)
	}
	o, err := p.takeOver(t.Context())
	if err != nil {
		return err
	}
	o.settle(40)
	for _, d := range o.live {
		if _, err := o.records.SaveProgress(t.Context(), []ledger.Update{{ID: d.ID, Status: d.Status}}, nil); err != nil {
			return err
		}
		d.dirty = false
	}
	if err := o.save(t.Context(), 40); err != nil {
		return err
	}
	s.offered, s.done = 40, map[string]bool{}
	for _, step := range steps {
		if err := step.do(t.Context(), p, s); err != nil {
			return err
		}
		s.done[step.name] = true
	}
	return o.follow(t.Context())
}

func testCrash(t *testing.T, c Config) {
	for _, crash := range []faults.Fault{faults.CrashBefore, faults.CrashAfter} {
		for call, crashed := 0, true; crashed && !t.Failed(); call++ {
			t.Run(fmt.Sprintf("crash %d at call %d", crash, call), func(t *testing.T) {
				w := c.world(t)
				s := &script{}
				err := s.run(t, w, faults.Plan{Before: func(c faults.Call) faults.Fault {
					if c.N == call {
						return crash
					}
					return faults.None
				}})
				if crashed = errors.Is(err, faults.ErrCrashed); !crashed {
					must(t, err)
				}
				p := w.process(t)
				o := ok(p.takeOver(t.Context()))(t)
				s.check(t, p, o)
				// Everything still works.
				live := len(o.live)
				for i := range 3 {
					ok(p.Admit(t.Context(), subscription(t, p, 100+i, "new"), store.Progress{}, ledger.Quota{Own: 3, All: 300}))(t)
				}
				must(t, o.follow(t.Context()))
				if len(o.live) != live+3 {
					t.Errorf("%d are live, %d were before", len(o.live), live)
				}
			})
		}
	}
}

// check checks that a successor finds all that was answered, and nothing that is half done.
func (s *script) check(t *testing.T, p *process, o *owner) {
	t.Helper()
	attempted := func(step string) bool { // its answer may have been lost
		i := slices.IndexFunc(steps, func(x scriptStep) bool { return x.name == step })
		return s.offered > 0 && (i == 0 || s.done[steps[i-1].name])
	}
	for i, sub := range s.admitted {
		base, live := o.base(sub.ID)
		dead := i == 1 && s.done["removed"] || i == 5 && s.done["ended"] || i%2 == 0 && s.done["revoked"]
		mayBe := i == 1 && attempted("removed") || i == 5 && attempted("ended") || i%2 == 0 && attempted("revoked")
		switch {
		case live && dead || !live && !mayBe:
			t.Errorf("%s is live: %v", sub.ID, live)
		case live && i == 3 && s.done["rewound"]:
			if base != 10 {
				t.Errorf("the replay begins after %d", base)
			}
		case live && base < s.offered && !(i == 3 && attempted("rewound")):
			t.Errorf("%s goes on after %d, %d was stored", sub.ID, base, s.offered)
		}
	}
	if s.done["verified"] && !attempted("unverified") || s.done["unverified"] {
		_, there, err := p.Verification(t.Context(), "ann", "u")
		if must(t, err); there == s.done["unverified"] {
			t.Errorf("there is a verification: %v", there)
		}
	}
	if _, fresh, err := p.ClaimAction(t.Context(), ledger.Action{Key: "a"}); fresh && s.done["claimed"] || err != nil {
		t.Errorf("claimed again: %v, %v", fresh, err)
	}
	if h := ok(p.History(t.Context(), topic))(t); s.done["schema"] && len(h) != 1 {
		t.Errorf("history %v", h)
	}
}

func testCheckpointComesLast(t *testing.T, c Config) {
	const n = 1100 // two commits
	for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.Unsent} {
		t.Run(fmt.Sprint("fault ", fault), func(t *testing.T) {
			w := c.world(t)
			commits := -1 << 30
			a := w.faulty(t, faults.Plan{Before: func(c faults.Call) faults.Fault {
				if c.Commit != nil {
					if commits++; commits == 2 {
						return fault
					}
				}
				return faults.None
			}})
			for i := range n {
				a.admit(t, i, "ann")
			}
			o := ok(a.takeOver(t.Context()))(t)
			o.settle(50)
			must(t, o.save(t.Context(), 50))
			for id := range o.live {
				o.match(id, 54)
			}
			commits = 0
			if err := o.save(t.Context(), 60); err == nil {
				t.Fatal("it was saved")
			}
			next := ok(w.process(t).takeOver(t.Context()))(t)
			at := map[store.Position]int{}
			for _, d := range next.live {
				at[d.Status.Progress.Base]++
			}
			stored := fault == faults.CrashAfter
			if at[54] == 0 || at[50]+at[54] != n || (at[50] == 0) != stored || (next.checkpoint.Position == 60) != stored {
				t.Errorf("they go on after %v, the checkpoint is %v", at, next.checkpoint)
			}
		})
	}
}

func testAnswers(t *testing.T, c Config) {
	for _, fault := range []faults.Fault{faults.Lost, faults.Unanswered, faults.Late, faults.Again} {
		for _, deliver := range []bool{false, true} {
			t.Run(fmt.Sprintf("fault %d, delivered between %v", fault, deliver), func(t *testing.T) {
				w := c.world(t)
				commits := 0
				var p *process
				plan := faults.Plan{Before: func(c faults.Call) faults.Fault {
					if c.Commit == nil {
						return faults.None
					}
					if commits++; commits%2 == 1 {
						return fault
					}
					if deliver && p != nil {
						p.faults.Deliver(t.Context()) // just before its copy
					}
					return faults.None
				}}
				p = w.faulty(t, plan)
				q := ledger.Quota{Own: 1, All: 1}
				s := ok(p.Admit(t.Context(), subscription(t, p, 1, "ann"), store.Progress{Epoch: epoch}, q))(t)
				ok(p.lease.Renew(t.Context(), ttl, nil))(t)
				o := ok(p.takeOver(t.Context()))(t)
				for at := range store.Position(5) {
					o.match(s.ID, at)
					o.settle(at + 1)
					must(t, o.save(t.Context(), at+1))
					_, _, err := p.Change(t.Context(), s.ID, func(s *ledger.Subscription) bool { s.Gap++; return true })
					must(t, err)
					ok(p.RaiseGap(t.Context(), topic))(t)
					claim(t, p, fmt.Sprint(at), "", true)
					must(t, p.AddSchema(t.Context(), topic, ledger.SchemaVersion{}, int(at)))
				}
				if got := p.stored(t, s.ID); got.Gap != 5 || got.Status.Progress.Base != 5 {
					t.Errorf("%+v", got)
				}
				if got := ok(p.Topic(t.Context(), topic))(t); got.Gap.Number != 5 {
					t.Errorf("%+v", got)
				}
				must(t, p.Remove(t.Context(), s.ID, s.Generation))
				ok(p.Admit(t.Context(), subscription(t, p, 2, "ann"), store.Progress{}, q))(t)
				must(t, p.Release(t.Context(), o.records.Hold()))
				must(t, p.lease.Leave(t.Context()))
				if n := p.faults.Deliver(t.Context()); n > 0 {
					t.Errorf("%d copies were applied that came late", n)
				}
				if got := w.keys(t, "sub/"); !slices.Equal(got, []string{"sub/sub_0002"}) {
					t.Errorf("stored are %v", got)
				}
			})
		}
	}
}

func testLateAdmission(t *testing.T, c Config) {
	w := c.world(t)
	ctx, cancel := context.WithCancel(t.Context())
	late := false
	p := w.faulty(t, faults.Plan{Before: func(c faults.Call) faults.Fault {
		if late && c.Commit != nil {
			cancel()
			return faults.Late
		}
		return faults.None
	}})
	s := subscription(t, p, 1, "ann")
	late = true
	_, err := p.Admit(ctx, s, store.Progress{}, ledger.Quota{})
	is(t, err, store.ErrUncertain)
	late = false
	other := w.process(t)
	next := s
	next.Generation = 99
	ok(other.Admit(t.Context(), next, store.Progress{}, ledger.Quota{}))(t)
	must(t, other.Remove(t.Context(), s.ID, next.Generation))
	if n := p.faults.Deliver(t.Context()); n != 0 {
		t.Error("it was admitted after it had been removed")
	}
}
