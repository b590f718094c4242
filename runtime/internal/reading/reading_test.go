package reading

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// A bed is an event type with one reader.
type bed struct {
	*eventtypetest.Type
	*Reader
	t    *testing.T
	wake topic.Wake
	poll bool
}

// eachSource runs f with a reader of a log, of a check, and of both, for a stream and for a poll.
func eachSource(t *testing.T, f func(b *bed)) {
	for name, o := range map[string]eventtypetest.Options{"log": {Emits: true}, "check": {Checks: true}, "both": {Emits: true, Checks: true}} {
		for what, poll := range map[string]bool{"stream": false, "poll": true} {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &bed{Type: eventtypetest.New(t, "e", o), t: t, wake: topic.NewWake(), poll: poll}
					a, err := b.Type.Arguments(`{}`)
					if err != nil {
						t.Fatal(err)
					}
					b.Reader = New(b.Type, a)
					b.Reader.Close() // it has not been opened
					open := b.Open
					if poll {
						open = b.OpenPoll
					}
					if truncated, err := open(t.Context(), eventtype.Identify(wire.ModePush, "ann", "", a), b.wake, feed.Start{Head: b.Type.Head()}); truncated || err != nil {
						t.Fatal(truncated, err)
					}
					f(b)
					b.Reader.Close()
					if n := b.Type.Feeds().Len(); n != 0 {
						t.Errorf("%d feeds are left", n)
					}
					if b.Topic() != nil {
						if left := b.Topic().Holding().Readers; len(left) != 0 {
							t.Errorf("%q are left in the index", left)
						}
					}
				})
			})
		}
	}
}

// happens makes an occurrence of each source that the type has.
func (b *bed) happens(id string) (ids []string) {
	if b.Asked() > 0 {
		b.Put("found" + id)
		ids = append(ids, "found"+id)
	}
	if b.Topic() != nil {
		b.Emit(eventtypetest.Incident{ID: "emitted" + id})
		ids = append(ids, "emitted"+id)
	}
	return ids
}

// read reads for three intervals of the check.
func (b *bed) read() (ids []string) {
	b.t.Helper()
	next := b.Reader.Next
	if b.poll {
		next = b.Fill
	}
	for range 3 {
		p, err := next(b.t.Context(), nil, topic.Batch(topic.PullBatch))
		if err != nil || p.Gap {
			b.t.Fatalf("gap %v, %v", p.Gap, err)
		}
		for i := range p.Out {
			ids = append(ids, p.Out[i].Entry().EventID)
		}
		if b.Park() {
			time.Sleep(time.Second)
			b.Unpark()
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// EVOL-3: a reader continues where it is under a definition that its arguments are valid under.
func TestEVOL3Rebind(t *testing.T) {
	eachSource(t, func(b *bed) {
		expect := func(want []string) {
			b.t.Helper()
			if got := b.read(); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				b.t.Errorf("read %q, want %q", got, want)
			}
		}
		expect(b.happens("1"))
		want := b.happens("2")
		before := b.Reader.Arguments()
		b.Redefine(`{"type":"object"}`)
		if b.Park() && b.ReadsLog() {
			b.t.Error("it parks under the definition before")
		}
		b.Unpark()
		if err := b.Rebind(); err != nil || b.Reader.Arguments().Def != b.Type.Current() || b.Reader.Arguments() == before {
			b.t.Errorf("%v", err)
		}
		if err := b.Rebind(); err != nil {
			b.t.Error(err)
		}
		expect(append(want, b.happens("3")...))
		if !b.Park() {
			b.t.Error("it does not park under the new definition")
		}
		b.Unpark()
	})
}

// EVOL-2: under a definition that does not accept the arguments, and after the type is removed, a reader cannot go on.
func TestEVOL2Rebind(t *testing.T) {
	eachSource(t, func(b *bed) {
		before := b.Reader.Arguments()
		b.Redefine(`{"type":"object","required":["service"]}`)
		if err := b.Rebind(); !errors.Is(err, events.ErrInvalidParams) {
			b.t.Errorf("refused arguments: %v", err)
		}
		b.Remove()
		if err := b.Rebind(); !errors.Is(err, events.ErrNotFound) {
			b.t.Errorf("removed: %v", err)
		}
		if b.Reader.Arguments() != before {
			b.t.Error("it has other arguments")
		}
	})
}

// A reader that cannot be opened holds nothing.
func TestOpenFails(t *testing.T) {
	eachSource(t, func(b *bed) {
		if b.ReadsLog() {
			return
		}
		b.Fail(errors.New("the upstream is down"))
		a, err := b.Type.Arguments(`{"service":"api"}`) // it has another feed
		if err != nil {
			b.t.Fatal(err)
		}
		r, sub := New(b.Type, a), eventtype.Identify(wire.ModePush, "ann", "", a)
		for name, open := range map[string]func() error{
			"stream": func() error { _, err := r.Open(b.t.Context(), sub, b.wake, feed.Start{}); return err },
			"poll":   func() error { _, err := r.OpenPoll(b.t.Context(), sub, b.wake, feed.Start{}); return err },
		} {
			if err := open(); !errors.Is(err, events.ErrUpstream) {
				b.t.Errorf("%s: %v", name, err)
			}
			r.Close()
		}
	})
}
