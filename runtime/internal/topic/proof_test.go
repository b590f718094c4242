package topic

import (
	"fmt"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// CUR-8: who comes back with a cursor of long ago goes on there without a loss being reported, and the cursor of a
// place stays the same, however many entries have followed and whatever is remembered of them.
func TestCUR8CursorOfLongAgo(t *testing.T) {
	typ := newType(t)
	topic := open(t, typ, nil, store.LogOptions{})
	cursor := func(p store.Position) string { return *topic.Cursor(typ, p) }
	const entries, kept = 3*provenSlots + 10, 5
	var given [kept + 1]string
	for p := store.Position(1); p <= entries; p++ {
		add(t, topic, incident{ID: fmt.Sprint("x", p)})
		if text := cursor(p); p <= kept {
			given[p] = text
		}
	}
	for p := store.Position(1); p <= kept; p++ {
		text := given[p]
		s, err := topic.Start(t.Context(), typ, entries, Replay{Cursor: &text})
		if err != nil || s.Truncated || s.Position != p {
			t.Errorf("from the cursor of %d: %d, truncated %v, %v", p, s.Position, s.Truncated, err)
		}
	}
	for p := store.Position(1); p <= kept; p++ {
		_ = cursor(p + 2*provenSlots) // in the same slot
		if text := cursor(p); text != given[p] {
			t.Errorf("the cursor of %d was %s and is %s", p, given[p], text)
		}
	}
}
