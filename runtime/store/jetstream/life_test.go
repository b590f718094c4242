package jetstream_test

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

var bounded = store.LogOptions{MaxCount: 100}

// putBack recreates the stream as a restore does: its settings, with their metadata, and its first n messages.
func putBack(t *testing.T, url, stream string, n int) {
	t.Helper()
	c, js := raw(t, url)
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	config := s.CachedInfo().Config
	var kept []*natsjs.RawStreamMsg
	for i := range n {
		kept = append(kept, check.Must(s.GetMsg(t.Context(), uint64(i+1)))(t))
	}
	if err := js.DeleteStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	tells := config.RePublish
	config.RePublish = nil // a restored stream does not republish
	// A restore is atomic: until it is complete, the stream must not count as ours.
	whole := config.Metadata
	config.Metadata = maps.Clone(whole)
	delete(config.Metadata, "mcpe.version")
	eventually(t, "the servers have forgotten what they had under that name", func() bool {
		_, err := js.CreateStream(t.Context(), config)
		return err == nil
	})
	for _, m := range kept {
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Data: m.Data}); err != nil {
			t.Fatal(err)
		}
	}
	config.Metadata, config.RePublish = whole, tells
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	c.Flush()
}

// A restored stream begins a new epoch, whether replicas run or not, and keeps its entries: an id that exists under
// the old epoch is found (JS-12, JS-13, JS-44).
func TestRestored(t *testing.T) {
	for _, tc := range []struct {
		name, url string
		single    bool
		keep      int // of 10
		stopped   bool
	}{
		{"to a cluster, all of it, under a running store", urls(cluster...), false, 10, false},
		{"to a cluster, an older copy, under a running store", urls(cluster...), false, 4, false},
		{"to a cluster, an older copy, while no store was open", urls(cluster...), false, 4, true},
		{"to one server, an older copy, under a running store", alone.ClientURL(), true, 4, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := jetstream.Options{Namespace: space(), Single: tc.single, Poll: 20 * time.Millisecond}
			s := open(t, tc.url, o)
			l := check.OpenLog(t, s, "log", bounded)
			check.Add(t, l, 10)
			check.OpenLog(t, s, "log", bounded)
			if tc.stopped {
				s.Close()
			}
			putBack(t, tc.url, strings.ToUpper(o.Namespace)+"_L_log", tc.keep)
			if tc.stopped {
				s = open(t, tc.url, o)
			} else {
				eventually(t, "the log has ended", func() bool {
					_, err := l.Read(t.Context(), 0, 1)
					return errors.Is(err, engine.ErrNewEpoch)
				})
				if _, err := l.Append(t.Context(), check.Entry("late")); !errors.Is(err, engine.ErrNewEpoch) {
					t.Fatalf("Append under the old epoch: %v", err)
				}
			}
			again := check.OpenLog(t, s, "log", bounded)
			if again.Epoch() == l.Epoch() {
				t.Fatal("the epoch is the old one")
			}
			if _, head := check.Bounds(t, again); int(head) != tc.keep {
				t.Fatalf("head %d", head)
			}
			check.Once(t, again, check.Entry("e3"), 0, 3, false)
			check.Reused(t, again, check.With(check.Entry("e3"), `{}`), 0, 3)
			next := store.Position(tc.keep) + 1
			check.Once(t, again, check.Entry("e3"), 3, next, true) // an id of the new epoch
			check.Once(t, again, check.With(check.Entry("e3"), `{"id":"e3"}`), 0, next, false)
			check.Once(t, again, check.Entry("e11"), 0, next+1, true)
			other := open(t, tc.url, o) // nothing begins a further one
			check.Equal(t, check.OpenLog(t, other, "log", bounded).Epoch(), again.Epoch())
			check.Once(t, check.OpenLog(t, other, "log", bounded), check.Entry("e2"), 0, 2, false)
		})
	}
}

// The state records what a look has seen of a log, and later processes check the stream against it: an older copy,
// another one of the same length and a missing stream lead to new epochs even if no process remembers the log, and an
// intact stream does not (JS-13, JS-44).
func TestWitness(t *testing.T) {
	for _, tc := range []struct {
		name string
		keep int // of 10; -1 for unchanged
		says string
	}{
		{"as it was", -1, ""},
		{"an older copy", 4, "the stream was replaced"},
		{"another copy", 10, "the stream was replaced"},
		{"gone", 0, "its entries are lost"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var said bytes.Buffer
			o := jetstream.Options{Namespace: space(), Single: true, Poll: time.Hour}
			s := open(t, alone.ClientURL(), o)
			l := check.OpenLog(t, s, "log", bounded)
			check.Add(t, l, 10)
			for range 2 {
				if err := s.Testify(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			s.Close()
			stream := strings.ToUpper(o.Namespace) + "_L_log"
			_, js := raw(t, alone.ClientURL())
			if at := subjectsOf(t, js, stateOf(o), o.Namespace+".s.w.log"); len(at) != 1 {
				t.Fatalf("%d witnesses", len(at))
			}
			switch tc.keep {
			case -1:
			case 0:
				if err := js.DeleteStream(t.Context(), stream); err != nil {
					t.Fatal(err)
				}
			default:
				putBack(t, alone.ClientURL(), stream, tc.keep)
			}
			o.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelError}))
			again := check.OpenLog(t, open(t, alone.ClientURL(), o), "log", bounded)
			if same := again.Epoch() == l.Epoch(); same != (tc.keep < 0) {
				t.Errorf("the same epoch: %v", same)
			}
			if tc.says == "" && said.Len() > 0 || !strings.Contains(said.String(), tc.says) {
				t.Errorf("said is %q", said.String())
			}
			check.Equal(t, check.OpenLog(t, open(t, alone.ClientURL(), o), "log", bounded).Epoch(), again.Epoch())
		})
	}
}

// A process remembers its delivered position while a stream is missing for a moment (JS-13).
func TestRestoredAfterLook(t *testing.T) {
	o := jetstream.Options{Namespace: space(), Single: true}
	s := open(t, alone.ClientURL(), o)
	l := check.OpenLog(t, s, "log", bounded)
	check.Add(t, l, 5)
	_, js := raw(t, alone.ClientURL())
	stream := strings.ToUpper(o.Namespace) + "_L_log"
	config := check.Must(js.Stream(t.Context(), stream))(t).CachedInfo().Config
	if err := js.DeleteStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), check.Entry("x")); !errors.Is(err, engine.ErrNewEpoch) {
		t.Fatalf("Append: %v", err)
	}
	check.Must(js.CreateStream(t.Context(), config))(t)
	if again := check.OpenLog(t, s, "log", bounded); again.Epoch() == l.Epoch() {
		t.Fatal("the epoch is the old one")
	}
}

// Deleting a stream ends its epoch as well.
func TestDeleted(t *testing.T) {
	o := jetstream.Options{Namespace: space(), Single: true, Poll: 20 * time.Millisecond}
	s := open(t, alone.ClientURL(), o)
	l := check.OpenLog(t, s, "log", bounded)
	check.Add(t, l, 3)
	_, js := raw(t, alone.ClientURL())
	if err := js.DeleteStream(t.Context(), strings.ToUpper(o.Namespace)+"_L_log"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), check.Entry("x")); !errors.Is(err, engine.ErrNewEpoch) {
		t.Fatalf("Append: %v", err)
	}
	if _, err := l.Read(t.Context(), 0, 1); !errors.Is(err, engine.ErrNewEpoch) {
		t.Fatalf("Read: %v", err)
	}
	again := check.OpenLog(t, s, "log", bounded)
	if _, head := check.Bounds(t, again); head != 0 || again.Epoch() == l.Epoch() {
		t.Fatalf("head %d, epochs %d and %d", head, l.Epoch(), again.Epoch())
	}
}

// A hole that somebody made by hand is not a gap of retention (JS-1).
func TestHole(t *testing.T) {
	o := jetstream.Options{Namespace: space(), Single: true}
	s := open(t, alone.ClientURL(), o)
	check.Add(t, check.OpenLog(t, s, "log", bounded), 5)
	s.Close()
	_, js := raw(t, alone.ClientURL())
	stream := check.Must(js.Stream(t.Context(), strings.ToUpper(o.Namespace)+"_L_log"))(t)
	if err := stream.DeleteMsg(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	l := check.OpenLog(t, open(t, alone.ClientURL(), o), "log", bounded)
	b := check.Read(t, l, 0, 10)
	check.Equal(t, len(b.Entries), 2)
	if _, err := l.Read(t.Context(), 2, 10); !errors.Is(err, jetstream.ErrCorrupt) {
		t.Fatalf("Read over the hole: %v", err)
	}
}

// unreleased makes a stream look like one of a build before the first release.
func unreleased(c *natsjs.StreamConfig) {
	delete(c.Metadata, "mcpe.version")
	c.Metadata["mcpe.form"] = "1"
}

// sentences say how to treat a stream of another version.
var sentences = map[string]string{
	"of a newer release": "(version 2, this release knows 1); upgrade mcpe-gen",
	"of no release":      "was made by an unreleased build of mcpe-gen; delete it or use another Namespace",
}

// OpenLog refuses a stream with another configuration by name, and Ping does so if it changes later (JS-42).
func TestForeign(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*natsjs.StreamConfig)
		want   error
	}{
		"of another program":   {func(c *natsjs.StreamConfig) { c.Metadata = nil }, jetstream.ErrForeign},
		"of a newer release":   {func(c *natsjs.StreamConfig) { c.Metadata["mcpe.version"] = "2" }, jetstream.ErrVersion},
		"of no release":        {unreleased, jetstream.ErrVersion},
		"of another log":       {func(c *natsjs.StreamConfig) { c.Metadata["mcpe.log"] = "other" }, jetstream.ErrForeign},
		"with more subjects":   {func(c *natsjs.StreamConfig) { c.Subjects = append(c.Subjects, c.Subjects[0]+".more") }, jetstream.ErrForeign},
		"with a bound of size": {func(c *natsjs.StreamConfig) { c.MaxBytes = 1 << 20 }, jetstream.ErrForeign},
		"on fewer servers":     {func(c *natsjs.StreamConfig) { c.Replicas = 1 }, jetstream.ErrReplicas},
		"without batches":      {func(c *natsjs.StreamConfig) { c.AllowAtomicPublish = false }, jetstream.ErrForeign},
		"that tells nobody":    {func(c *natsjs.StreamConfig) { c.RePublish = nil }, jetstream.ErrForeign},
		"by interest":          {func(c *natsjs.StreamConfig) { c.Retention = natsjs.InterestPolicy }, jetstream.ErrForeign},
		"of small messages":    {func(c *natsjs.StreamConfig) { c.MaxMsgSize = 100 }, jetstream.ErrForeign},
		"that refuses new":     {func(c *natsjs.StreamConfig) { c.Discard = natsjs.DiscardNew }, jetstream.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			o := jetstream.Options{Namespace: space(), Poll: 20 * time.Millisecond}
			s := open(t, urls(cluster...), o)
			check.Add(t, check.OpenLog(t, s, "log", bounded), 1)
			_, js := raw(t, urls(cluster...))
			stream := check.Must(js.Stream(t.Context(), strings.ToUpper(o.Namespace)+"_L_log"))(t)
			config := stream.CachedInfo().Config
			tc.change(&config)
			check.Must(js.UpdateStream(t.Context(), config))(t)
			if _, err := open(t, urls(cluster...), o).OpenLog(t.Context(), "log", bounded); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), sentences[name]) {
				t.Errorf("OpenLog: %v", err)
			}
			if !slices.Contains([]string{"of another program", "of another log"}, name) { // the epoch is lost as well
				eventually(t, "Ping says it", func() bool { return errors.Is(s.Ping(t.Context()), tc.want) })
			}
		})
	}
}

// If somebody has changed the limits, Ping fails with the name of the stream, since the server may delete retained
// entries; OpenLog restores the limits (JS-42).
func TestChangedLimits(t *testing.T) {
	for name, change := range map[string]func(*natsjs.StreamConfig){
		"fewer entries": func(c *natsjs.StreamConfig) { c.MaxMsgs = 5 },
		"a shorter age": func(c *natsjs.StreamConfig) { c.MaxAge = 3 * time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			o := jetstream.Options{Namespace: space(), Single: true, Poll: 20 * time.Millisecond}
			s := open(t, alone.ClientURL(), o)
			limits := store.LogOptions{MaxCount: 100, MaxAge: time.Hour}
			check.Add(t, check.OpenLog(t, s, "log", limits), 3)
			_, js := raw(t, alone.ClientURL())
			config := check.Must(js.Stream(t.Context(), strings.ToUpper(o.Namespace)+"_L_log"))(t).CachedInfo().Config
			change(&config)
			check.Must(js.UpdateStream(t.Context(), config))(t)
			eventually(t, "Ping says it", func() bool {
				err := s.Ping(t.Context())
				return errors.Is(err, jetstream.ErrForeign) && strings.Contains(err.Error(), config.Name)
			})
			l := check.OpenLog(t, s, "log", limits)
			eventually(t, "Ping is well", func() bool { return s.Ping(t.Context()) == nil })
			check.Equal(t, len(check.Read(t, l, 0, 9).Entries), 3)
		})
	}
}
