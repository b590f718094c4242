package operate_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// SRV-8: each process shows the figures of all processes, and what waits at a subscription that another one delivers to.
// If a process writes no figures for 10 seconds, they are missing, and it is named.
func TestSRV8FiguresOfAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		owner, other := p.names[p.owner], p.names[p.other]
		ctx := t.Context()
		ann := p.owner.stream(p.e, "ann")
		p.other.poller(&eventType{b: p.other, name: "e"}, "bob")
		must(t, p.other.Pause(ctx, p.id))
		settle(time.Second)
		<-ann.goOn // it is blocked
		began := time.Now()
		p.e.Emit(incident{ID: "1"})
		p.e.Emit(incident{ID: "2"})
		settle(6 * time.Second) // until the lease is renewed
		for name, b := range map[string]*bed{"owner": p.owner, "other": p.other} {
			all := b.EventTypes(ctx)
			if want := (operator.Counts{Behind: 2, Streams: 1, Pollers: 1, Webhooks: 1}); len(all) != 1 || all[0].Counts == nil || *all[0].Counts != want {
				t.Errorf("%s: %+v", name, all)
			}
			i, err := b.Get(ctx, p.id)
			if err != nil || i.Owner != owner || i.Missing != "" || time.Since(i.AsOf) > 10*time.Second || i.Behind == nil || *i.Behind != 2 || !i.WaitingSince.Equal(began) {
				t.Errorf("%s: %+v, %v", name, i, err)
			}
			d, err := b.Why(ctx, p.id)
			if err != nil || d.Reason != "paused" || !strings.Contains(d.Text, "Up to 2 entries waiting") {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
			found, _, err := b.Deliveries(ctx, "e", 2, "", 10)
			if err != nil || len(found) != 1 || found[0].Outcome != operator.OutcomeWaiting {
				t.Errorf("%s: %+v, %v", name, found, err)
			}
			hosts, _, err := b.Endpoints(ctx, operator.Filter{}, "", 10)
			if err != nil || len(hosts) != 1 || hosts[0].Behind == nil || *hosts[0].Behind != 2 || !hosts[0].WaitingSince.Equal(began) {
				t.Errorf("%s: %+v, %v", name, hosts, err)
			}
			b.finds(operator.Filter{Late: time.Second}, "ann")
			b.finds(operator.Filter{MinBehind: 2}, "ann")
			if f := b.Freshness(ctx); len(f.Missing) != 0 || f.AsOf.IsZero() || time.Since(f.AsOf) > 6*time.Second {
				t.Errorf("%s: %+v", name, f)
			}
			c, err := b.Cluster(ctx)
			figures := map[string]operator.Figures{}
			for _, r := range c.Replicas {
				figures[r.Name] = *r.Figures
			}
			if want := map[string]operator.Figures{owner: {Streams: 1, Webhooks: 1}, other: {Pollers: 1}}; err != nil || !maps.Equal(figures, want) {
				t.Errorf("%s: %+v, %v", name, figures, err)
			}
		}
		var theirs []string
		all, fresh := p.other.Connections(ctx)
		for _, c := range all {
			theirs = append(theirs, fmt.Sprint(c.ID, " ", c.Principal, " ", c.Mode, " ", c.Process, " ", c.Ours()))
		}
		if want := []string{owner + "/stream-0000000000000001 ann push " + owner + " false",
			"poll-" + wire.SubscriptionID(wire.ModePoll, "bob", "", "e", []byte("{}")) + " bob poll " + other + " true"}; !slices.Equal(theirs, want) || len(fresh.Missing) != 0 {
			t.Errorf("connections %q, %+v", theirs, fresh)
		}
		missing(t, "one of another process", p.other.EndConnection(all[0].ID, nil))
		ann.goOn <- struct{}{}

		p.stop()
		last := time.Now()
		settle(11 * time.Second)
		i, err := p.other.Get(ctx, p.id)
		if err != nil || i.Owner != owner || i.Behind != nil || !strings.HasPrefix(i.Missing, owner+" has not written its figures since 2000-01-01 ") || i.AsOf.After(last) {
			t.Errorf("%+v, %v", i, err)
		}
		if all := p.other.EventTypes(ctx); len(all) != 1 || all[0].Counts != nil {
			t.Errorf("%+v", all)
		}
		if hosts, _, err := p.other.Endpoints(ctx, operator.Filter{}, "", 10); err != nil || hosts[0].Behind != nil || hosts[0].Missing != i.Missing || !hosts[0].WaitingSince.IsZero() {
			t.Errorf("%+v, %v", hosts, err)
		}
		p.other.finds(operator.Filter{Late: time.Second})
		must(t, p.other.Unpause(ctx, p.id))
		if d, err := p.other.Why(ctx, p.id); err != nil || d.Reason != "unreported" || !strings.HasPrefix(d.Text, i.Missing) {
			t.Errorf("%+v, %v", d, err)
		}
		if all, f := p.other.Connections(ctx); len(all) != 1 || !slices.Equal(f.Missing, []string{i.Missing}) || !slices.Equal(p.other.Freshness(ctx).Missing, f.Missing) {
			t.Errorf("%+v, %+v", all, f)
		}
		settle(5 * time.Minute) // the other process takes over
		if i, err := p.other.Get(ctx, p.id); err != nil || i.Owner != other || i.Missing != "" || i.Behind == nil || *i.Behind != 0 || len(p.other.Freshness(ctx).Missing) != 0 {
			t.Errorf("%+v, %v", i, err)
		}
	})
}

// SRV-8: a report has the latest 100 connections, and says how many there are besides.
func TestSRV8ManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		for i := range 103 {
			p.owner.stream(p.e, fmt.Sprint("p", i))
			time.Sleep(time.Millisecond)
		}
		settle(6 * time.Second)
		all, f := p.other.Connections(t.Context())
		if len(all) != 100 || all[0].Principal != "p3" || !slices.Equal(f.Missing, []string{p.names[p.owner] + " has 3 older connections, which only its own list contains."}) {
			t.Errorf("%d, the first %+v; %+v", len(all), all[0], f)
		}
		if types := p.other.EventTypes(t.Context()); types[0].Counts == nil || types[0].Streams != 103 {
			t.Errorf("%+v", types)
		}
	})
}

// A stuckStore does not answer some calls: "writes" of progress, or those for the "processes".
type stuckStore struct {
	*memcluster.Store
	stuck atomic.Value // string
}

// wait waits for the end of ctx if these calls are stuck.
func (s *stuckStore) wait(ctx context.Context, calls string) error {
	if s.stuck.Load() == calls {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (s *stuckStore) Cluster(ctx context.Context) (engine.Cluster, error) {
	if err := s.wait(ctx, "processes"); err != nil {
		return engine.Cluster{}, err
	}
	return s.Store.Cluster(ctx)
}

func (s *stuckStore) Owned(h engine.ShardFence) engine.Owned { return stuckShard{s.Store.Owned(h), s} }

type stuckShard struct {
	engine.Owned
	s *stuckStore
}

func (o stuckShard) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	if err := o.s.wait(ctx, "writes"); err != nil {
		return err
	}
	return o.Owned.SaveAttempts(ctx, updates, made)
}

// SRV-8: a store that does not finish writes, or does not tell which processes share it, delays no answer by 2 seconds.
func TestSRV8StuckStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		st := &stuckStore{Store: memcluster.New().Open()}
		b := newBed(t, setup{store: st, r: r, replica: replicas.Options{Name: "a", Lease: 5 * time.Minute}})
		e := b.event("e")
		settle(time.Minute)
		id := b.subscribe("ann")
		r.on(refuse)
		e.Emit(incident{ID: "1"})
		settle(time.Second)
		for _, stuck := range []string{"writes", "processes"} {
			st.stuck.Store(stuck)
			e.Emit(incident{ID: stuck}) // there is something to write
			time.Sleep(10 * time.Millisecond)
			for what, ask := range map[string]func() (missing bool, err error){
				"get": func() (bool, error) {
					i, err := b.Get(t.Context(), id)
					return i.Missing != "", err
				},
				"failing": func() (bool, error) {
					f, err := b.Failing(t.Context(), 10)
					return f.Total == 1 && f.Longest[0].Missing != "", err
				},
				"missing": func() (bool, error) { return len(b.Freshness(t.Context()).Missing) > 0, nil },
				"types":   func() (bool, error) { return b.EventTypes(t.Context())[0].Counts == nil, nil },
			} {
				began := time.Now()
				missing, err := ask()
				if took := time.Since(began); err != nil || missing != (stuck == "processes") || took >= 2*time.Second {
					t.Errorf("%s are stuck, %s: missing %t, %v, after %v", stuck, what, missing, err, took)
				}
			}
			st.stuck.Store("")
			settle(time.Minute)
		}
	})
}
