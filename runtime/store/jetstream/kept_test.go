package jetstream_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

// wiredStore opens a new store on the single server, over a wire.
func wiredStore(t *testing.T) (*jetstream.Store, *wire, string) {
	t.Helper()
	w := new(wire)
	o := jetstream.Options{Namespace: space(), Single: true, Poll: time.Hour, Connect: []nats.Option{nats.SetCustomDialer(w)}}
	return open(t, alone.ClientURL(), o), w, o.Namespace
}

// subjectsOf returns the subjects of a stream that match a filter.
func subjectsOf(t *testing.T, js natsjs.JetStream, stream, filter string) (found []string) {
	t.Helper()
	s := check.Must(js.Stream(t.Context(), stream))(t)
	info := check.Must(s.Info(t.Context(), natsjs.WithSubjectFilter(filter)))(t)
	for subject := range info.State.Subjects {
		found = append(found, subject)
	}
	return found
}

// Append may repeat an id; AppendOnce then finds the last entry (JS-5).
func TestRepeatedID(t *testing.T) {
	l := check.OpenLog(t, single(t), "log", bounded)
	for want := range store.Position(3) {
		if p, err := l.Append(t.Context(), check.Entry("x")); p != want+1 || err != nil {
			t.Fatalf("Append = %d, %v", p, err)
		}
	}
	check.Once(t, l, check.Entry("x"), 0, 3, false)
	check.Once(t, l, check.Entry("x"), 2, 3, false)
	check.Once(t, l, check.Entry("x"), 3, 4, true)
}

// OpenLog has looked at the log: its last request for the end comes after a proof of a quorum (JS-9).
func TestOpenLogProves(t *testing.T) {
	s, w, namespace := wiredStore(t)
	check.OpenLog(t, s, "log", bounded)
	w.mu.Lock()
	defer w.mu.Unlock()
	var asked []string
	for _, m := range regexp.MustCompile(`PUB \$JS\.API\.STREAM\.(\S+)\.`+strings.ToUpper(namespace)+`_L_log `).FindAllSubmatch(w.sent, -1) {
		asked = append(asked, string(m[1]))
	}
	if n := len(asked); n < 2 || asked[n-2] != "MSG.DELETE" || asked[n-1] != "INFO" {
		t.Errorf("it has asked for %q", asked)
	}
}

// A group is one batch, with the new entries and an expected sequence for each (JS-7).
func TestGroupIsOneBatch(t *testing.T) {
	s, w, namespace := wiredStore(t)
	l := check.OpenLog(t, s, "log", bounded)
	check.Once(t, l, check.Entry("e2"), 0, 1, true)
	before := len(w.publishes(namespace + ".l."))
	var group []store.Outgoing
	for i := range 5 {
		group = append(group, store.Outgoing{Entry: check.Entry(fmt.Sprint("e", i)), Once: true})
	}
	for i, a := range check.Must(s.AppendGroup(t.Context(), "log", group))(t) {
		want := []store.Position{2, 3, 1, 4, 5}[i]
		if a.Position != want || a.Fresh != (i != 2) {
			t.Errorf("entry %d: %+v", i, a)
		}
	}
	frames := w.publishes(namespace + ".l.")[before:]
	if len(frames) != 4 {
		t.Fatalf("%d publishes", len(frames))
	}
	id := func(frame []byte) string {
		_, rest, _ := bytes.Cut(frame, []byte("Nats-Batch-Id: "))
		line, _, _ := bytes.Cut(rest, []byte("\r\n"))
		return string(line)
	}
	for _, f := range frames {
		if id(f) == "" || id(f) != id(frames[0]) || !bytes.Contains(f, []byte("Nats-Expected-Last-Subject-Sequence: 0")) {
			t.Errorf("%s", f)
		}
	}
}

// An entry is never reported missing because a server lacks it that another one has acknowledged (JS-11).
func TestLogOfServerBehind(t *testing.T) {
	o := jetstream.Options{Namespace: space(), Single: true}
	const n = 200
	check.Add(t, check.OpenLog(t, open(t, alone.ClientURL(), o), "log", store.LogOptions{}), n)
	s := open(t, alone.ClientURL(), o) // its memory is empty
	l := check.OpenLog(t, s, "log", store.LogOptions{})
	s.Behind()
	for at := store.Position(0); at < n; {
		b := check.Read(t, l, at, 50)
		if len(b.Entries) == 0 || b.Gap || b.Entries[0].Position != at+1 {
			t.Fatalf("after %d: %d entries, gap %v", at, len(b.Entries), b.Gap)
		}
		at = b.Entries[len(b.Entries)-1].Position
	}
}

// A deletion is a message that expires. Readers ignore it, and a write after it, or after its expiry, expects no
// message (JS-18).
func TestDeletion(t *testing.T) {
	s, _, namespace := wiredStore(t)
	ctx := t.Context()
	_, js := raw(t, alone.ClientURL())
	stream := check.Must(js.Stream(ctx, jetstream.StateStream(namespace)))(t)
	for round := range 2 {
		revision := check.Must(s.PutState(ctx, engine.State{Key: "k", Value: []byte(`1`)}))(t)
		if err := s.DeleteState(ctx, "k", revision); err != nil {
			t.Fatal(err)
		}
		if all := check.Must(s.States(ctx, "", "", 9))(t); len(all) != 0 {
			t.Fatalf("%+v", all)
		}
		at := subjectsOf(t, js, jetstream.StateStream(namespace), namespace+".s.k.6b")
		if len(at) != 1 {
			t.Fatalf("%v", at)
		}
		m := check.Must(stream.GetLastMsgForSubject(ctx, at[0]))(t)
		if ttl := m.Header.Get("Nats-TTL"); ttl != "1h0m0s" || m.Sequence <= revision {
			t.Errorf("the deletion at %d of %d lives %q", m.Sequence, revision, ttl)
		}
		if round == 0 { // as after its expiry
			if err := stream.Purge(ctx, natsjs.WithPurgeSubject(at[0])); err != nil {
				t.Fatal(err)
			}
		}
	}
	check.Must(s.PutState(ctx, engine.State{Key: "k", Value: []byte(`2`)}))(t)
}

// A look at the cluster reads only changes (JS-20).
func TestLookReadsChanges(t *testing.T) {
	s, w, _ := wiredStore(t)
	ctx := t.Context()
	check.Must(s.Establish(ctx, "topic", 100))(t)
	lease := check.Must(s.Join(ctx, "r", time.Minute, nil, nil))(t)
	var free []engine.ShardFence
	for n := range 100 {
		free = append(free, engine.ShardFence{Shard: engine.Shard{Topic: "topic", Number: n}})
	}
	if won := check.Must(s.Claim(ctx, lease.Fence, free))(t); len(won) != len(free) {
		t.Fatalf("%d shards", len(won))
	}
	check.Must(s.Cluster(ctx))(t)
	before := w.received()
	if c := check.Must(s.Cluster(ctx))(t); len(c.Shards) != 100 || c.Shards[99].Fence != lease.Fence {
		t.Fatalf("%+v", c)
	}
	if n := w.received() - before; n > 5_000 { // the holds have 25 kB
		t.Errorf("a look reads %d bytes", n)
	}
}

// Progress of another generation is never read, and is deleted with the subscription (JS-25).
func TestEarlierGeneration(t *testing.T) {
	s, _, namespace := wiredStore(t)
	ctx := t.Context()
	sub := check.Put(t, s, inShard("sub_1", 0))
	owner := s.Owned(owns(t, s, 0))
	_, js := raw(t, alone.ClientURL())
	stream := check.Must(js.Stream(ctx, jetstream.StateStream(namespace)))(t)
	var old []*natsjs.RawStreamMsg
	for _, at := range subjectsOf(t, js, jetstream.StateStream(namespace), namespace+".s.o.*.*.r.*.*") {
		old = append(old, check.Must(stream.GetLastMsgForSubject(ctx, at))(t))
	}
	if len(old) != 1 {
		t.Fatalf("%d messages", len(old))
	}
	sub.Generation, sub.Progress.Base = sub.Generation+1, 20
	sub = check.Put(t, s, sub)
	for _, m := range old { // as if it arrived late
		check.Must(js.PublishMsg(ctx, &nats.Msg{Subject: m.Subject, Data: m.Data}))(t)
	}
	check.Equal(t, check.Get(t, s, sub.ID), sub)
	check.Equal(t, check.Must(owner.Subscriptions(ctx, "", 9))(t), []store.Subscription{sub})
	if err := s.DeleteSubscription(ctx, sub.ID, sub.Generation); err != nil {
		t.Fatal(err)
	}
	if m := check.Must(stream.GetLastMsgForSubject(ctx, old[0].Subject))(t); m.Header.Get("Nats-TTL") == "" {
		t.Error("the progress of before outlives the subscription")
	}
}

// Taking received bodies is one message, which includes the cursor (JS-32).
func TestTakeIsOneMessage(t *testing.T) {
	s, w, namespace := wiredStore(t)
	ctx := t.Context()
	for i := range 3 {
		check.Must(s.PutReceived(ctx, "k", clientstore.Received{EventID: fmt.Sprint("e", i), Body: []byte("b")}))(t)
	}
	bodies := check.Must(s.Received(ctx, "k", 0, 9))(t)
	if len(bodies) != 3 {
		t.Fatalf("%d bodies", len(bodies))
	}
	writes := func() (n int) {
		for _, f := range w.publishes(namespace + ".c.") {
			if !bytes.HasPrefix(f, []byte("HPUB "+namespace+".c.b.")) { // a proof
				n++
			}
		}
		return n
	}
	before := writes()
	if err := s.TakeReceived(ctx, "k", bodies[1].Sequence, clientstore.Saved{Cursor: "c2"}); err != nil {
		t.Fatal(err)
	}
	if n := writes() - before; n != 1 {
		t.Errorf("%d messages", n)
	}
	left := check.Must(s.Received(ctx, "k", 0, 9))(t)
	if saved, _, err := s.Load(ctx, "k"); err != nil || saved.Cursor != "c2" || len(left) != 1 || left[0].EventID != "e2" {
		t.Errorf("%+v, %v; left %+v", saved, err, left)
	}
}

// The store's clock is that of the servers, and the next leader does not set it back (JS-33).
func TestClockNeverGoesBack(t *testing.T) {
	o := jetstream.Options{Namespace: space(), Single: true}
	s := open(t, alone.ClientURL(), o)
	now := check.Must(s.Now(t.Context()))(t)
	if d := time.Since(now).Abs(); d > 5*time.Second { // the server is in this process
		t.Fatalf("%v apart", d)
	}
	if ahead := s.Hear(now.Add(time.Hour)); ahead < 59*time.Minute {
		t.Errorf("a leader that is an hour ahead is %v ahead", ahead)
	}
	s.WatchLife() // the next leader reports its time
	if later := check.Must(s.Now(t.Context()))(t); later.Before(now.Add(time.Hour)) {
		t.Errorf("the clock went back from %v to %v", now.Add(time.Hour), later)
	}
}
