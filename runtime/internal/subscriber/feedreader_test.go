package subscriber

import (
	"context"
	"errors"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An idleSource has nothing, and notes whether it is parked.
type idleSource struct {
	t      *testing.T
	parked bool
	parks  int
}

func (s *idleSource) Pull(context.Context, []topic.Outcome) (topic.Pulled, error) {
	return topic.Pulled{}, nil
}
func (s *idleSource) Rebind(context.Context, *feed.Check, *topic.Arguments) error { return nil }
func (s *idleSource) Asks() bool                                                  { return false }
func (s *idleSource) Close()                                                      {}
func (s *idleSource) Cursor() []byte                                              { return []byte(`"source"`) }

func (s *idleSource) Park() bool {
	s.parked = true
	s.parks++
	return true
}

func (s *idleSource) Unpark() store.Position {
	if !s.parked {
		s.t.Error("the source is unparked, and was not parked")
	}
	s.parked = false
	return 0
}

// idleFeed is a reader of a check over src, which has found n losses that nobody has read.
func idleFeed(t *testing.T, src *idleSource, n int) *feedReader {
	et := newEventType(t)
	a, err := et.Arguments(`{}`)
	if err != nil {
		t.Fatal(err)
	}
	r := &feedReader{w: new(Subscriptions), args: a, src: src, last: "last", passed: "passed"}
	r.et, r.handle = et, &delivery.Handle{}
	r.bound.Store(&a)
	for range n {
		r.addItem(feedItem{gap: true, cursor: "lost"})
	}
	return r
}

// A reader that keeps all that it may waits without its source: nothing is passed that was not read, and
// the source, which does not wait, is not told to stop. Once something is settled it waits with its source.
func TestFullReaderWaitsAlone(t *testing.T) {
	src := &idleSource{t: t}
	r := idleFeed(t, src, maxFound)
	if !r.Park(0) || src.parks != 0 {
		t.Fatalf("the source was parked %d times", src.parks)
	}
	if p := r.Passed(); p != 0 {
		t.Errorf("passed %d, and nothing was read", p)
	}
	if c := r.Cursor(maxFound); *c != "last" {
		t.Errorf("cursor %s", *c)
	}
	if p := r.Unpark(); p != 0 {
		t.Errorf("unparked at %d, and nothing was read", p)
	}
	for range maxFound {
		r.found = r.found[1:]
	}
	if !r.Park(maxFound) || src.parks != 1 || r.Passed() != maxFound || *r.Cursor(maxFound) != "source" || r.Unpark() != maxFound {
		t.Errorf("with nothing kept it does not wait with its source: parked %d times", src.parks)
	}
}

// What asking the upstream came to is told by the next Read, once, and is not slept over (HOOK-4).
func TestFailureOfAskingIsToldOnce(t *testing.T) {
	src := &idleSource{t: t}
	r := idleFeed(t, src, 0)
	away := errors.New("away")
	r.failed = away
	if r.Park(0) {
		t.Error("it sleeps over what went wrong")
	}
	if _, err := r.Read(t.Context(), 0, 10); !errors.Is(err, away) {
		t.Errorf("read: %v", err)
	}
	if _, err := r.Read(t.Context(), 0, 10); err != nil {
		t.Errorf("told twice: %v", err)
	}
	if !r.Park(0) || src.parks != 1 {
		t.Error("it does not wait any more")
	}
}
