package jetstream_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

func stateOf(o jetstream.Options) string { return jetstream.StateStream(o.Namespace) }

// inShard returns a record of a shard.
func inShard(id string, n int) store.Subscription {
	s := check.Subscription(id)
	s.Shard, s.Progress, s.Health, s.Report = n, store.Progress{Epoch: 1, Base: 7, Open: true}, store.Health{}, nil
	return s
}

// owns makes s own a shard of the event type of inShard.
func owns(t *testing.T, s *jetstream.Store, n int) engine.ShardFence {
	t.Helper()
	topic := inShard("", 0).Event
	check.Must(s.Establish(t.Context(), topic, 4))(t)
	lease := check.Must(s.Join(t.Context(), "owner", time.Minute, nil, nil))(t)
	h := engine.ShardFence{Shard: engine.Shard{Topic: topic, Number: n}}
	if won := check.Must(s.Claim(t.Context(), lease.Fence, []engine.ShardFence{h}))(t); len(won) != 1 {
		t.Fatal("the shard cannot be claimed")
	}
	h.Fence = lease.Fence
	return h
}

// leads makes a server lead a stream.
func isLeader(t *testing.T, x *server.Server, stream string) {
	t.Helper()
	c, err := nats.Connect(x.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, x.Name()+" leads "+stream, func() bool {
		if x.JetStreamIsStreamLeader("$G", stream) {
			return true
		}
		_, err := c.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, x.Name()), 2*time.Second)
		if err != nil {
			t.Log(err)
		}
		return x.JetStreamIsStreamLeader("$G", stream)
	})
}

// A server without the others gives no false answers: nothing is reported missing, no replica as gone, no log as
// looked at or in a new epoch (JS-9, JS-12, JS-17).
func TestMinority(t *testing.T) {
	servers := three(t.TempDir())
	t.Cleanup(func() { stop(servers...) })
	o := jetstream.Options{Namespace: "q"}
	s := open(t, urls(servers...), o)
	check.Put(t, s, inShard("sub_1", 0))
	left := slices.IndexFunc(servers, func(x *server.Server) bool { return x.JetStreamIsStreamLeader("$G", "Q_S") })
	if left < 0 {
		t.Fatal("no server leads the state")
	}
	alone := open(t, servers[left].ClientURL(), o)
	h := owns(t, alone, 0)
	l := check.OpenLog(t, alone, "log", bounded).(engine.Log)
	check.Add(t, l, 3)
	isLeader(t, servers[left], "Q_L_log")
	away := check.OpenLog(t, alone, "away", bounded)
	check.Add(t, away, 3)
	isLeader(t, servers[(left+1)%3], "Q_L_away")
	stop(servers[(left+2)%3]) // the other one last, so that it hands over to no server
	stop(servers[(left+1)%3])
	stopped := time.Now()
	time.Sleep(time.Second) // a look in progress ends
	var wg sync.WaitGroup
	for name, f := range map[string]func(ctx context.Context) error{
		"Subscription": func(ctx context.Context) error { _, _, err := alone.Subscription(ctx, "sub_1"); return err },
		"none":         func(ctx context.Context) error { _, _, err := alone.Subscription(ctx, "sub_2"); return err },
		"Count":        func(ctx context.Context) error { _, _, err := alone.CountSubscriptions(ctx, "alice"); return err },
		"Verification": func(ctx context.Context) error { _, _, err := alone.Verification(ctx, "alice", "u"); return err },
		"Cluster":      func(ctx context.Context) error { _, err := alone.Cluster(ctx); return err },
		"States":       func(ctx context.Context) error { _, err := alone.States(ctx, "", "", 10); return err },
		"Owned":        func(ctx context.Context) error { _, err := alone.Owned(h).Subscriptions(ctx, "", 10); return err },
		"Append":       func(ctx context.Context) error { _, err := l.Append(ctx, check.Entry("x")); return err },
		"to no leader": func(ctx context.Context) error { _, err := away.Append(ctx, check.Entry("x")); return err },
		"AppendOnce":   func(ctx context.Context) error { _, _, err := l.AppendOnce(ctx, check.Entry("y"), 0); return err },
		"OpenLog":      func(ctx context.Context) error { _, err := alone.OpenLog(ctx, "log", bounded); return err },
		"CatchUp":      func(ctx context.Context) error { _, err := l.CatchUp(ctx, 9); return err },
		"Ping":         alone.Ping,
	} {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			if err := f(ctx); err == nil || errors.Is(err, engine.ErrNewEpoch) || errors.Is(err, engine.ErrFenced) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	if l.Seen().After(stopped) {
		t.Error("the log was looked at")
	}
}

// A server that lags costs an additional request, and is never believed (JS-16, JS-17, JS-28).
func TestServerBehind(t *testing.T) {
	o := jetstream.Options{Namespace: space(), Single: true}
	s := open(t, alone.ClientURL(), o)
	s.Behind()
	ctx := t.Context()
	var subs []store.Subscription
	for i := range 8 {
		subs = append(subs, check.Put(t, s, inShard(fmt.Sprint("sub_", i), 0)))
	}
	h := owns(t, s, 0)
	check.Must(s.PutState(ctx, engine.State{Key: "k", Value: []byte(`1`)}))(t)
	owner := s.Owned(h)
	for round := range 10 {
		base := store.Position(8 + round)
		for i := range subs {
			subs[i].Progress.Base = base
			u := store.Update{ID: subs[i].ID, Generation: subs[i].Generation, Progress: subs[i].Progress}
			if err := owner.SaveProgress(ctx, []store.Update{u}); err != nil {
				t.Fatal(err)
			}
		}
		check.Equal(t, check.Get(t, s, "sub_3"), subs[3])
		check.Equal(t, check.Must(owner.Subscriptions(ctx, "", 100))(t), subs)
		if _, all, err := s.CountSubscriptions(ctx, "alice"); all != len(subs) || err != nil {
			t.Fatalf("%d are counted, %v", all, err)
		}
		if err := owner.SaveMark(ctx, "log", base); err != nil {
			t.Fatal(err)
		}
		if mark, err := owner.Mark(ctx, "log"); mark != base || err != nil {
			t.Fatalf("Mark = %d, %v", mark, err)
		}
		if c := check.Must(s.Cluster(ctx))(t); len(c.Replicas) != 1 || len(c.Shards) != 4 || c.Shards[0] != h {
			t.Fatalf("%+v", c)
		}
		if states := check.Must(s.States(ctx, "", "", 9))(t); len(states) != 1 {
			t.Fatalf("%+v", states)
		}
	}
}

// Writes to one shard conflict, and those of one process wait for each other; no conflict is mistaken for a lost hold
// (JS-22, JS-23).
func TestBusyShard(t *testing.T) {
	a, b := two(t)
	sub := check.Put(t, a, inShard("sub_1", 0))
	h := owns(t, a, 0)
	owners := []engine.Owned{a.Owned(h), b.Owned(h)}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			var err error
			if owner := owners[i/2%2]; i%2 == 0 {
				u := store.Update{ID: sub.ID, Generation: sub.Generation, Progress: store.Progress{Epoch: 1, Base: store.Position(i)}}
				err = owner.SaveProgress(t.Context(), []store.Update{u})
			} else {
				err = owner.SaveMark(t.Context(), "log", store.Position(i))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if mark, err := owners[0].Mark(t.Context(), "log"); mark != 199 || err != nil {
		t.Errorf("Mark = %d, %v", mark, err)
	}
}

// replay sends frames once more, each as often as given, like copies that were delayed on the way.
func replay(t *testing.T, url string, frames [][]byte) {
	t.Helper()
	c := check.Must(net.Dial("tcp", strings.TrimPrefix(url, "nats://")))(t)
	defer c.Close()
	fmt.Fprintf(c, "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true,\"protocol\":1}\r\n")
	for _, f := range frames {
		check.Must(c.Write(f))(t)
	}
	fmt.Fprintf(c, "PING\r\n")
	var got []byte
	c.SetReadDeadline(time.Now().Add(time.Minute))
	for b := make([]byte, 4096); !bytes.Contains(got, []byte("PONG")); {
		n := check.Must(c.Read(b))(t)
		got = append(got, b[:n]...)
	}
}

// A late copy of an owner's write is refused as a whole: it undoes no delivery (JS-16, JS-22).
func TestLateCopiesOfState(t *testing.T) {
	var w wire
	o := jetstream.Options{Namespace: space(), Single: true, Connect: []nats.Option{nats.SetCustomDialer(&w)}}
	s := open(t, alone.ClientURL(), o)
	sub := check.Put(t, s, inShard("sub_1", 0))
	owner := s.Owned(owns(t, s, 0))
	for base := range store.Position(3) {
		sub.Progress.Base = 10 + base
		if err := owner.SaveProgress(t.Context(), []store.Update{{ID: sub.ID, Generation: sub.Generation, Progress: sub.Progress}}); err != nil {
			t.Fatal(err)
		}
		if err := owner.SaveMark(t.Context(), "log", 10+base); err != nil {
			t.Fatal(err)
		}
	}
	state := check.Must(s.PutState(t.Context(), engine.State{Key: "k", Value: []byte(`1`)}))(t)
	state = check.Must(s.PutState(t.Context(), engine.State{Key: "k", Value: []byte(`2`), Revision: state}))(t)
	frames := w.publishes(o.Namespace + ".s.")
	if len(frames) < 20 {
		t.Fatalf("%d publishes", len(frames))
	}
	replay(t, alone.ClientURL(), frames)
	check.Equal(t, check.Get(t, s, sub.ID), sub)
	if mark, err := owner.Mark(t.Context(), "log"); mark != 12 || err != nil {
		t.Errorf("Mark = %d, %v", mark, err)
	}
	if all := check.Must(s.States(t.Context(), "", "", 9))(t); len(all) != 1 || all[0].Revision != state || string(all[0].Value) != `2` {
		t.Errorf("%+v", all)
	}
}

// A lease that expires while its renewal is in progress continues if the renewal is written first, even if another
// process has read before that it had expired (JS-19).
func TestRenewalBeforeJudgement(t *testing.T) {
	a, b := two(t)
	ctx := t.Context()
	for ttl := 200 * time.Millisecond; ; ttl *= 2 {
		lease := check.Must(a.Join(ctx, "r", ttl, nil, nil))(t)
		stands, goes, renewed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		a.Between(sync.OnceFunc(func() { // it has read an unexpired lease
			close(stands)
			<-goes
		}))
		go func() {
			_, err := a.Renew(ctx, lease.Fence, time.Minute, nil, nil)
			renewed <- err
		}()
		select {
		case <-stands:
		case err := <-renewed:
			if !errors.Is(err, engine.ErrFenced) {
				t.Fatal(err)
			}
			continue // it expired earlier
		}
		judges := false
		b.Between(sync.OnceFunc(func() { // it has read that the lease has expired
			judges = true
			close(goes)
			if err := <-renewed; err != nil {
				t.Error(err)
			}
		}))
		eventually(t, "b judges", func() bool { check.Must(b.Cluster(ctx))(t); return judges })
		for _, s := range []*jetstream.Store{a, b} {
			if !slices.ContainsFunc(check.Must(s.Cluster(ctx))(t).Replicas, func(r engine.Replica) bool { return r.Fence == lease.Fence }) {
				t.Fatal("a lease is over that was renewed before its end was written")
			}
		}
		return
	}
}

// Either the renewal or the end of an expired lease wins, and an ended lease stays ended (JS-19).
func TestRenewalAndJudgement(t *testing.T) {
	a, b := two(t)
	ctx := t.Context()
	has := func(c engine.Cluster, fence uint64) bool {
		return slices.ContainsFunc(c.Replicas, func(r engine.Replica) bool { return r.Fence == fence })
	}
	b.Slow(5 * time.Millisecond) // the judging process
	renewed, over := 0, 0
	for round := range 60 {
		lease := check.Must(a.Join(ctx, "r", 20*time.Millisecond, nil, nil))(t)
		time.Sleep(time.Duration(round%20) * time.Millisecond) // so that renewals come before, at and after the lease's end
		var wg sync.WaitGroup
		var err error
		wg.Go(func() { _, err = a.Renew(ctx, lease.Fence, time.Minute, nil, nil) })
		seen := has(check.Must(b.Cluster(ctx))(t), lease.Fence)
		wg.Wait()
		switch {
		case err == nil:
			renewed++
		case errors.Is(err, engine.ErrFenced):
			over++
		default:
			t.Fatal(err)
		}
		if err == nil && !seen {
			t.Fatalf("round %d: a lease that was over was renewed", round)
		}
		for _, s := range []*jetstream.Store{a, b} {
			if now := has(check.Must(s.Cluster(ctx))(t), lease.Fence); now != (err == nil) {
				t.Fatalf("round %d: the renewal ended with %v, and the lease is there: %v", round, err, now)
			}
		}
		if err := a.Leave(ctx, lease.Fence); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d were renewed, %d over", renewed, over)
}

// A recreated or restored state is a new generation: logs begin new epochs, and earlier leases and holds end (JS-13,
// JS-14, REP-19).
func TestStateMadeAgain(t *testing.T) {
	for _, tc := range []struct {
		name, url string
		single    bool
	}{{"on a cluster", urls(cluster...), false}, {"on one server", alone.ClientURL(), true}} {
		t.Run(tc.name, func(t *testing.T) {
			o := jetstream.Options{Namespace: space(), Single: tc.single}
			s := open(t, tc.url, o)
			l := check.OpenLog(t, s, "log", bounded)
			check.Add(t, l, 3)
			h, before := owns(t, s, 0), s.Generation()
			for range 20 { // the recreated stream is shorter
				check.Must(s.Cluster(t.Context()))(t)
			}
			_, js := raw(t, tc.url)
			stream := check.Must(js.Stream(t.Context(), stateOf(o)))(t)
			life := check.Must(stream.GetLastMsgForSubject(t.Context(), jetstream.LifeSubject(o.Namespace)))(t)
			if err := js.DeleteStream(t.Context(), stateOf(o)); err != nil {
				t.Fatal(err)
			}
			s.WatchLife()
			if err := s.Ping(t.Context()); !errors.Is(err, jetstream.ErrForeign) || !strings.Contains(err.Error(), stateOf(o)) {
				t.Fatalf("Ping without a state: %v", err)
			}
			check.Must(js.CreateStream(t.Context(), stream.CachedInfo().Config))(t)
			check.Must(js.PublishMsg(t.Context(), &nats.Msg{Subject: life.Subject, Data: life.Data}))(t)
			if !tc.single { // a cluster detects it by the raft group, whatever the stream has; a single server by its end
				for range 200 {
					check.Must(js.PublishMsg(t.Context(), &nats.Msg{Subject: jetstream.ProofSubject(o.Namespace), Data: life.Data}))(t)
				}
			}
			s.WatchLife()
			if s.Generation() <= before {
				t.Fatalf("generation %d after %d", s.Generation(), before)
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Append(t.Context(), check.Entry("x")); !errors.Is(err, engine.ErrNewEpoch) {
				t.Fatalf("Append: %v", err)
			}
			again := check.OpenLog(t, s, "log", bounded)
			if again.Epoch() == l.Epoch() || len(check.Read(t, again, 0, 9).Entries) != 3 {
				t.Fatal("the log has not begun a new epoch with its entries")
			}
			if _, err := s.Renew(t.Context(), h.Fence, time.Minute, nil, nil); !errors.Is(err, engine.ErrFenced) {
				t.Fatalf("Renew: %v", err)
			}
			other := open(t, tc.url, o)
			check.Equal(t, other.Generation(), s.Generation())
			check.Equal(t, check.OpenLog(t, other, "log", bounded).Epoch(), again.Epoch())
		})
	}
}

// A new store is reported once, in case the account is wrong (JS-42).
func TestNewStoreIsSaid(t *testing.T) {
	o := jetstream.Options{Namespace: space(), Single: true}
	for _, want := range []int{1, 0} {
		var said bytes.Buffer
		o.Logger = slog.New(slog.NewTextHandler(&said, nil))
		open(t, alone.ClientURL(), o)
		if n := strings.Count(said.String(), "created an empty one"); n != want {
			t.Errorf("it is said %d times, not %d: %s", n, want, &said)
		}
	}
}

// An owner that has not heard of a new generation still cannot write (JS-14, REP-19).
func TestOwnerOfBefore(t *testing.T) {
	a, b := two(t)
	sub := check.Put(t, a, inShard("sub_1", 0))
	owner := b.Owned(owns(t, b, 0))
	update := []store.Update{{ID: sub.ID, Generation: sub.Generation, Progress: store.Progress{Epoch: 1, Base: 9}}}
	if err := owner.SaveProgress(t.Context(), update); err != nil {
		t.Fatal(err)
	}
	if err := a.BeginEpochs(t.Context()); err != nil {
		t.Fatal(err)
	}
	update[0].Progress.Base = 10
	if err := owner.SaveProgress(t.Context(), update); !errors.Is(err, engine.ErrFenced) {
		t.Errorf("SaveProgress: %v", err)
	}
	if base := check.Get(t, a, sub.ID).Progress.Base; base != 9 {
		t.Errorf("base %d", base)
	}
}

// A stream with another configuration is refused by name (JS-42).
func TestForeignState(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*natsjs.StreamConfig)
		want   error
	}{
		"of another program":    {func(c *natsjs.StreamConfig) { c.Metadata = nil }, jetstream.ErrForeign},
		"of a newer release":    {func(c *natsjs.StreamConfig) { c.Metadata["mcpe.version"] = "2" }, jetstream.ErrVersion},
		"of no release":         {unreleased, jetstream.ErrVersion},
		"with other subjects":   {func(c *natsjs.StreamConfig) { c.Subjects = append(c.Subjects, "else."+c.Name) }, jetstream.ErrForeign},
		"that drops its oldest": {func(c *natsjs.StreamConfig) { c.MaxMsgs = 1000 }, jetstream.ErrForeign},
		"that drops by age":     {func(c *natsjs.StreamConfig) { c.MaxAge = time.Hour }, jetstream.ErrForeign},
		"without direct reads":  {func(c *natsjs.StreamConfig) { c.AllowDirect = false }, jetstream.ErrForeign},
		"of small messages":     {func(c *natsjs.StreamConfig) { c.MaxMsgSize = 100 }, jetstream.ErrForeign},
		"without batches":       {func(c *natsjs.StreamConfig) { c.AllowAtomicPublish = false }, jetstream.ErrForeign},
		"on fewer servers":      {func(c *natsjs.StreamConfig) { c.Replicas = 1 }, jetstream.ErrReplicas},
	} {
		t.Run(name, func(t *testing.T) {
			o := jetstream.Options{Namespace: space()}
			s := open(t, urls(cluster...), o)
			_, js := raw(t, urls(cluster...))
			config := check.Must(js.Stream(t.Context(), stateOf(o)))(t).CachedInfo().Config
			tc.change(&config)
			check.Must(js.UpdateStream(t.Context(), config))(t)
			if again, err := jetstream.Open(t.Context(), urls(cluster...), quiet(o)); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), sentences[name]) {
				t.Errorf("Open: %v", err)
				if err == nil {
					again.Close()
				}
			}
			s.WatchLife()
			if err := s.Ping(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("Ping: %v", err)
			}
		})
	}
}

// The stream next to the state is checked as well: if somebody changes or deletes it, Ping fails with its name (JS-42).
func TestChangedBeside(t *testing.T) {
	o := jetstream.Options{Namespace: space(), Single: true}
	s := open(t, alone.ClientURL(), o)
	if err := s.Save(t.Context(), "k", clientstore.Saved{Cursor: "c"}); err != nil {
		t.Fatal(err)
	}
	_, js := raw(t, alone.ClientURL())
	name := strings.ToUpper(o.Namespace) + "_C"
	says := func(what string) {
		t.Helper()
		s.WatchLife()
		if err := s.Ping(t.Context()); !errors.Is(err, jetstream.ErrForeign) || !strings.Contains(err.Error(), name) {
			t.Errorf("Ping, %s: %v", what, err)
		}
	}
	config := check.Must(js.Stream(t.Context(), name))(t).CachedInfo().Config
	changed := config
	changed.MaxAge = 3 * time.Minute
	check.Must(js.UpdateStream(t.Context(), changed))(t)
	says("changed")
	check.Must(js.UpdateStream(t.Context(), config))(t)
	s.WatchLife()
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if err := js.DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	says("deleted")
}

// Secrets are sealed if there is a key, and only that key opens the store (JS-42).
func TestKey(t *testing.T) {
	o := jetstream.Options{Namespace: space(), Single: true, Key: []byte("0123456789abcdef0123456789abcdef")}
	s := open(t, alone.ClientURL(), o)
	sub := check.Put(t, s, inShard("sub_1", 0))
	callback := clientstore.Callback{URL: "u", Path: "/p", Secrets: sub.Secrets}
	if err := s.PutCallback(t.Context(), "k", callback); err != nil {
		t.Fatal(err)
	}
	_, js := raw(t, alone.ClientURL())
	secret := sub.Secrets[0].Key
	holds := func(namespace string) (n int) {
		for _, name := range []string{"_S", "_C"} {
			stream := check.Must(js.Stream(t.Context(), strings.ToUpper(namespace)+name))(t)
			for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
				m, err := stream.GetMsg(t.Context(), seq)
				if err != nil {
					continue
				}
				// The record of a store without a key has base64 in base64.
				inner, _ := json.Marshal([]store.Secret{{Key: secret}})
				for _, form := range []string{string(secret), base64.StdEncoding.EncodeToString(secret), base64.StdEncoding.EncodeToString(append([]byte{0}, inner[:40]...))[:40]} {
					if bytes.Contains(m.Data, []byte(form)) {
						n++
						break
					}
				}
			}
		}
		return n
	}
	if n := holds(o.Namespace); n != 0 {
		t.Errorf("%d messages hold a secret", n)
	}
	check.Equal(t, check.Get(t, s, "sub_1"), sub)
	for name, key := range map[string][]byte{"no key": nil, "another": []byte("another-key-of-32-bytes---------"), "a short one": []byte("short")} {
		wrong := o
		wrong.Key = key
		if s, err := jetstream.Open(t.Context(), alone.ClientURL(), quiet(wrong)); !errors.Is(err, jetstream.ErrKey) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				s.Close()
			}
		}
	}
	again := open(t, alone.ClientURL(), o)
	check.Equal(t, check.Get(t, again, "sub_1"), sub)
	if got, _, err := again.Callback(t.Context(), "k"); err != nil || len(got.Secrets) != 2 {
		t.Errorf("%+v, %v", got, err)
	}

	plain := jetstream.Options{Namespace: space(), Single: true}
	s = open(t, alone.ClientURL(), plain)
	check.Put(t, s, sub0(sub))
	if err := s.PutCallback(t.Context(), "k", callback); err != nil {
		t.Fatal(err)
	}
	if n := holds(plain.Namespace); n != 2 { // the test sees plain secrets
		t.Errorf("without a key %d messages hold a secret", n)
	}
	plain.Key = o.Key
	if s, err := jetstream.Open(t.Context(), alone.ClientURL(), quiet(plain)); !errors.Is(err, jetstream.ErrKey) {
		t.Errorf("a key for a store without: %v", err)
		if err == nil {
			s.Close()
		}
	}
}

// sub0 returns an unstored record.
func sub0(sub store.Subscription) store.Subscription {
	sub.Revision = 0
	return sub
}

// Each missing right is named immediately by the call that needs it (JS-34).
func TestRightsOfState(t *testing.T) {
	ctx := t.Context()
	put := func(id string) func(s *jetstream.Store) error {
		return func(s *jetstream.Store) error { _, err := s.PutSubscription(ctx, inShard(id, 0)); return err }
	}
	rights := []struct {
		denied string
		needs  func(s *jetstream.Store) error // nil: Open
	}{
		{"$JS.API.INFO", nil},
		{"$JS.API.STREAM.INFO.R_S", nil},
		{"$JS.API.DIRECT.GET.R_S", nil},
		{"r.s.c.b.*", nil},
		{"r.s.c.l.*", func(s *jetstream.Store) error { _, err := s.Join(ctx, "r", time.Minute, nil, nil); return err }},
		{"r.s.c.n.*", func(s *jetstream.Store) error { _, err := s.Establish(ctx, "x", 1); return err }},
		{"r.s.o.*.*.r.*", put("sub_r")},
		{"r.s.q.>", put("sub_q")},
		{"r.s.v.*", func(s *jetstream.Store) error { return s.PutVerification(ctx, store.Verification{URL: "u"}) }},
		{"r.s.k.*", func(s *jetstream.Store) error { _, err := s.PutState(ctx, engine.State{Key: "k"}); return err }},
		{"r.s.y.>", func(s *jetstream.Store) error { return s.AddSchema(ctx, "e", engine.SchemaVersion{}, 0) }},
		{"r.c.>", func(s *jetstream.Store) error { return s.Save(ctx, "k", clientstore.Saved{Cursor: "c"}) }},
		{"$JS.API.STREAM.MSG.DELETE.R_S", func(s *jetstream.Store) error { return s.Ping(ctx) }},
		{"$JS.API.STREAM.PURGE.R_S", func(s *jetstream.Store) error {
			sub := inShard("sub_p", 0)
			if _, err := s.PutSubscription(ctx, sub); err != nil {
				return err
			}
			u := []store.Update{{ID: sub.ID, Generation: sub.Generation}}
			if err := s.SaveAttempts(ctx, u, [][]operator.Attempt{{{EventID: "e", At: check.At(1)}}}); err != nil {
				return err
			}
			_, err := s.TrimAttempts(ctx, engine.AttemptBounds{}, check.At(2), 9)
			return err
		}},
	}
	so := options(t.TempDir())
	so.Users = []*server.User{{Username: "all", Password: "secret"}}
	for i, r := range rights {
		so.Users = append(so.Users, &server.User{Username: fmt.Sprint("u", i), Password: "secret",
			Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{r.denied}}}})
	}
	x := start(so)
	t.Cleanup(func() { stop(x) })
	as := func(user string) (*jetstream.Store, error) {
		return jetstream.Open(ctx, x.ClientURL(), quiet(jetstream.Options{Namespace: "r", Single: true, Connect: []nats.Option{nats.UserInfo(user, "secret")}}))
	}
	all := check.Must(as("all"))(t)
	t.Cleanup(func() { all.Close() })
	if err := all.Save(ctx, "k", clientstore.Saved{Cursor: "c"}); err != nil {
		t.Fatal(err)
	}
	for i, r := range rights {
		t.Run(r.denied, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			s, err := as(fmt.Sprint("u", i))
			if err == nil {
				defer s.Close()
			}
			if r.needs != nil {
				if err != nil {
					t.Fatal(err)
				}
				err = r.needs(s)
			}
			named := strings.TrimRight(r.denied, ">*.")
			if head, _, ok := strings.Cut(r.denied, ".*"); ok {
				named = head
			}
			if !errors.Is(err, jetstream.ErrRights) || !strings.Contains(err.Error(), named) {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
	}
}

// Leases too short for the crash of a server are warned about, once (JS-35).
func TestShortLeases(t *testing.T) {
	var said bytes.Buffer
	o := jetstream.Options{Namespace: space(), Single: true, Logger: slog.New(slog.NewTextHandler(&said, nil))}
	s := open(t, alone.ClientURL(), o)
	check.Must(s.Join(t.Context(), "r", 30*time.Second, nil, nil))(t)
	if strings.Contains(said.String(), "lease") {
		t.Fatalf("30 s are said to be short: %s", &said)
	}
	for range 2 {
		check.Must(s.Join(t.Context(), "r", 10*time.Second, nil, nil))(t)
	}
	if n := strings.Count(said.String(), "leases are short"); n != 1 {
		t.Errorf("it is said %d times: %s", n, &said)
	}
}

// A scan of several pages is complete, and pages of an owner are cut from it (JS-28); those of the store list all
// ids, in order (JS-29).
func TestManyRecords(t *testing.T) {
	s := single(t)
	const n = 280 // a page has 512 messages, two for each
	var wg sync.WaitGroup
	for w := range 7 {
		wg.Go(func() {
			for i := range n / 7 {
				if _, err := s.PutSubscription(t.Context(), inShard(fmt.Sprintf("sub_%04d", w*n/7+i), 0)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	owner := s.Owned(owns(t, s, 0))
	for name, pages := range map[string]func(after string) ([]store.Subscription, error){
		"owner": func(after string) ([]store.Subscription, error) { return owner.Subscriptions(t.Context(), after, 150) },
		"store": func(after string) ([]store.Subscription, error) { return s.Subscriptions(t.Context(), after, 150) },
	} {
		var ids []string
		for after := ""; ; after = ids[len(ids)-1] {
			page := check.Must(pages(after))(t)
			if len(page) == 0 {
				break
			}
			for _, sub := range page {
				ids = append(ids, sub.ID)
			}
		}
		if len(ids) != n || !slices.IsSorted(ids) {
			t.Errorf("%s: %d ids", name, len(ids))
		}
	}
	var updates []store.Update
	for i := range n {
		sub := inShard(fmt.Sprintf("sub_%04d", i), 0)
		updates = append(updates, store.Update{ID: sub.ID, Generation: sub.Generation, Progress: store.Progress{Epoch: 1, Base: 9}})
	}
	if err := owner.SaveProgress(t.Context(), updates); err != nil {
		t.Fatal(err)
	}
	for _, sub := range check.Must(owner.Subscriptions(t.Context(), "", n))(t) {
		check.Equal(t, sub.Progress, store.Progress{Epoch: 1, Base: 9})
	}
}
