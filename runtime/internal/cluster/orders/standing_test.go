package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// REP-13: the next owner of a shard reads what operators have done to many subscriptions while orders are retained;
// actions on a single subscription, and those that the hooks cover, are not included.
func TestREP13Standing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := join(t, c, false), join(t, c, true)
		tell := func(p *process, o Order) {
			t.Helper()
			var err error
			o.At, err = p.Request(t.Context())
			must(t, err)
			must(t, p.Tell(t.Context(), o))
		}
		tell(a, Order{Kind: Revoke, Principal: "ann"})
		tell(b, Order{Kind: Revoke, Principal: "ann", Names: []string{"f"}})
		tell(a, Order{Kind: Revoke, Principal: "bob"})
		tell(a, To(operator.Target{Event: "e"}, Gap, nil))
		tell(a, To(operator.Target{ID: "s"}, Gap, nil))
		tell(a, Order{Kind: Recheck, Principal: "eve"})
		stands := func(p *process) (all []string) {
			s, err := p.Standing(t.Context())
			must(t, err)
			for _, v := range s.Revoked {
				all = append(all, fmt.Sprintf("%s %v %d", v.Principal, v.Names, v.At.Position))
			}
			for event, at := range s.Gaps {
				all = append(all, fmt.Sprintf("gap %s %d", event, at.Position))
			}
			slices.Sort(all)
			return all
		}
		heir := join(t, c, false)
		if got, want := stands(heir), []string{"ann [] 1", "ann [f] 2", "bob [] 3", "gap e 4"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		tell(b, Order{Kind: Revoke, Principal: "ann"})
		tell(b, To(operator.Target{Event: "e"}, Gap, nil))
		if got, want := stands(heir), []string{"ann [] 7", "ann [f] 2", "bob [] 3", "gap e 8"}; !slices.Equal(got, want) {
			t.Errorf("a second time: %q, want %q", got, want)
		}
		time.Sleep(engine.ControlAge)
		if got, want := stands(heir), []string{"ann [] 7", "gap e 8"}; !slices.Equal(got, want) {
			t.Errorf("after an hour: %q, want %q", got, want)
		}
		time.Sleep(time.Hour)
		// No shard changes its owner: a process that gives orders deletes old states.
		tell(a, Order{Kind: Revoke, Principal: "eve"})
		left, err := heir.store.States(t.Context(), "", "", 100)
		must(t, err)
		if len(left) != 1 || !strings.HasPrefix(left[0].Key, revokedPrefix) {
			t.Errorf("%d states are left", len(left))
		}
	})
}

// REP-13: a request covers what any process has admitted before it, and not what is admitted after its order was read,
// also over a new generation of the store.
func TestREP13RequestsCover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := join(t, c, false), join(t, c, false)
		revoke := func(p *process) (at store.ControlPosition) {
			t.Helper()
			at, err := p.Request(t.Context())
			must(t, err)
			must(t, p.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann", At: at}))
			return at
		}
		covers := func(what string, at, admitted store.ControlPosition, want bool) {
			t.Helper()
			if got := admitted.Compare(at) < 0; got != want {
				t.Errorf("%s: admitted at %v, requested at %v: covered is %v", what, admitted, at, got)
			}
		}
		for round := range 3 {
			before := []store.ControlPosition{a.Position(), b.Position()}
			b.store.Inject(memcluster.Faults{Fail: func(op string) error { return errors.New("b hears nothing") }})
			at := revoke(a)
			covers("the process that revoked", at, a.Position(), false)
			covers("one that has not read it", at, b.Position(), true)
			b.store.Inject(memcluster.Faults{})
			time.Sleep(maxLookAge + time.Second)
			covers("one that has read it", at, b.Position(), false)
			for _, p := range before {
				covers("what was there", at, p, true)
			}
			if round == 1 {
				must(t, c.BeginEpoch(2)) // the log loses its last two orders, so positions repeat
				earlier := a.Position()  // before a can read what b requests
				covers("of an earlier generation", revoke(b), earlier, true)
				time.Sleep(maxLookAge + time.Second)
			}
		}
		a.store.Inject(memcluster.Faults{Fail: func(op string) error { return errors.New("no") }})
		admitted := a.Position()
		at, err := a.Request(t.Context())
		if err == nil {
			t.Error("the store has failed")
		}
		covers("what this process has admitted", at, admitted, true)
	})
}

// REP-13: of two revocations of a principal that meet in the store, both stand.
func TestREP13StandingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := join(t, c, false), join(t, c, false)
		var met bool
		a.store.Inject(memcluster.Faults{Fail: func(op string) error {
			if op == "PutState" && !met {
				met = true
				return b.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann", Names: []string{"e"}})
			}
			return nil
		}})
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann", Names: []string{"f"}}))
		s, err := b.Standing(t.Context())
		must(t, err)
		if len(s.Revoked) != 2 || s.Revoked[0].Names[0] != "e" || s.Revoked[1].Names[0] != "f" {
			t.Errorf("%+v", s.Revoked)
		}
	})
}

// A betweenGenerations store begins a generation while the control log is opened.
type betweenGenerations struct {
	engine.Shared
	generation uint64
}

func (s *betweenGenerations) Generation() uint64 { return s.generation }

func (s *betweenGenerations) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	s.generation = 2
	return s.Shared.OpenLog(ctx, name, o)
}

// REP-13, REP-19: a position has the generation of the log that it is in.
func TestREP13GenerationOfTheLog(t *testing.T) {
	l := New(Options{Store: &betweenGenerations{memcluster.New().Open(), 1}, Now: time.Now, Refresh: func(context.Context) {}})
	defer l.Shutdown()
	if at, err := l.Request(t.Context()); err != nil || at.Generation != 2 {
		t.Errorf("requested at %v, %v", at, err)
	}
}

// REP-13: an order whose state cannot be stored is not sent.
func TestREP13StandingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := join(t, c, false), join(t, c, false)
		refused := errors.New("no")
		for _, op := range []string{"States", "PutState"} {
			a.store.Inject(memcluster.Faults{Fail: func(step string) error {
				if step == op {
					return refused
				}
				return nil
			}})
			if err := a.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann"}); !errors.Is(err, refused) {
				t.Errorf("%s: %v", op, err)
			}
		}
		a.store.Inject(memcluster.Faults{Fail: func(step string) error {
			if step == "States" {
				return refused
			}
			return nil
		}})
		if _, err := a.Standing(t.Context()); !errors.Is(err, refused) {
			t.Error(err)
		}
		b.did(t, "nothing is told")
	})
}
