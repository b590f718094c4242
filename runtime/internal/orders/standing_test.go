package orders

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// REP-13: the next owner of a shard reads what operators have done to many subscriptions while orders are retained;
// actions on a single subscription, and those that the hooks cover, are not included.
func TestREP13Standing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := join(t, c, false), join(t, c, true)
		began := time.Now()
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann"}))
		must(t, b.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann", Names: []string{"f"}}))
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "bob", At: began.Add(-time.Minute)}))
		must(t, a.Tell(t.Context(), To(operator.Target{Event: "e"}, Gap, nil)))
		must(t, a.Tell(t.Context(), To(operator.Target{ID: "s"}, Gap, nil)))
		must(t, a.Tell(t.Context(), Order{Kind: Recheck, Principal: "eve"}))
		stands := func(p *process) (all []string) {
			s, err := p.Standing(t.Context())
			must(t, err)
			for _, v := range s.Revoked {
				all = append(all, fmt.Sprintf("%s %v %v", v.Principal, v.Names, v.At.Sub(began)))
			}
			for event, at := range s.Gaps {
				all = append(all, fmt.Sprintf("gap %s %v", event, at.Sub(began)))
			}
			slices.Sort(all)
			return all
		}
		heir := join(t, c, false)
		if got, want := stands(heir), []string{"ann [] 0s", "ann [f] 0s", "bob [] -1m0s", "gap e 0s"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		must(t, b.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann"}))
		must(t, b.Tell(t.Context(), To(operator.Target{Event: "e"}, Gap, nil)))
		if got, want := stands(heir), []string{"ann [] 1m0s", "ann [f] 0s", "bob [] -1m0s", "gap e 1m0s"}; !slices.Equal(got, want) {
			t.Errorf("a second time: %q, want %q", got, want)
		}
		time.Sleep(engine.ControlAge)
		if got, want := stands(heir), []string{"ann [] 1m0s", "gap e 1m0s"}; !slices.Equal(got, want) {
			t.Errorf("after an hour: %q, want %q", got, want)
		}
		time.Sleep(time.Hour)
		// No shard changes its owner: a process that gives orders deletes old states.
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "eve"}))
		left, err := heir.store.States(t.Context(), "", "", 100)
		must(t, err)
		if len(left) != 1 || !strings.HasPrefix(left[0].Key, revokedPrefix) {
			t.Errorf("%d states are left", len(left))
		}
	})
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
