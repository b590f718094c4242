package subscriber

import (
	"context"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/reading"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An idleSource has nothing, and notes whether it is parked.
type idleSource struct {
	t      *testing.T
	parked bool
	parks  int
}

func (s *idleSource) Next(context.Context, []topic.Outcome, topic.Bound) (topic.Pulled, error) {
	return topic.Pulled{}, nil
}
func (s *idleSource) Rebind(*feed.Check, *topic.Arguments) {}
func (s *idleSource) Close()                               {}
func (s *idleSource) Cursor() []byte                       { return []byte(`"source"`) }

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
	r := &feedReader{w: new(Subscriptions), args: a, src: src, last: "last", passed: "passed", Binding: reading.Bind(et, a)}
	r.handle = &delivery.Handle{}
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
