package feed

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// CUR-1, OCC-2: items that have cursors are gone on from by these, others by the last cursor before them, whatever the
// order of both; ids that are derived do not depend on where the page began.
func TestItemCursors(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		cursors := []string{"", "c2", "", "", "c5", "c6", ""}
		places := map[string]int{"0": 0, "c2": 2, "c5": 5, "c6": 6, "7": 7}
		s.check.Ask = func(_ context.Context, _ any, cursor string) (Page, error) {
			p := Page{Cursor: "7"}
			if cursor == "" {
				p.Cursor = "0"
			}
			for i := places[cursor]; i < len(cursors); i++ {
				p.Items = append(p.Items, Item{Time: time.Now(), Data: json.RawMessage(`{}`), Cursor: cursors[i]})
			}
			return p, nil
		}
		start := Start{Replay: replay(s.feeds.upstream(s.check, s.args(), "").cursorOf(checkpoint{upstream: "0"})), Later: true}
		st := s.openAt(start, false)
		var ids, after []string
		for len(ids) < len(cursors) {
			p, err := st.Next(t.Context(), nil, topic.Batch(topic.PullBatch))
			if err != nil {
				t.Fatal(err)
			}
			for i := range p.Out {
				ids = append(ids, p.Out[i].Entry().EventID)
				var text string
				if err := json.Unmarshal(p.Out[i].Cursor(), &text); err != nil {
					t.Fatal(err)
				}
				after = append(after, text)
			}
			if len(p.Out) == 0 && st.Park() {
				<-st.wake
				st.Unpark()
			}
		}
		st.Close()
		if len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(cursors) {
			t.Errorf("ids %q", ids)
		}
		for i := range after {
			from := s.open(after[i], false)
			if got, want := from.read(2*interval), strings.Join(ids[i+1:], " "); got != want {
				t.Errorf("after %d: %q, want %q", i, got, want)
			}
			from.Close()
		}
	})
}

// CUR-7: a page whose cursors would lose items is refused, and says which.
func TestItemCursorsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		cursors []string
		page    string
		want    string
	}{
		"that of the question": {[]string{"", "a"}, "b", `item 1 has the cursor "a"`},
		"twice":                {[]string{"b", "", "b"}, "c", `item 2 has the cursor "b"`},
		"an earlier one":       {[]string{"b", "c", "b"}, "d", `item 2 has the cursor "b" of an earlier position`},
		"too long":             {[]string{strings.Repeat("x", MaxUpstream+1)}, "c", "item 0 has a cursor of 16385 bytes"},
		"a page that stands":   {[]string{"b"}, "a", `the page has the cursor "a" of the request`},
		"good":                 {[]string{"b", "", "c"}, "c", ""},
	} {
		p := Page{Cursor: c.page}
		for _, cursor := range c.cursors {
			p.Items = append(p.Items, Item{Cursor: cursor})
		}
		err := p.checkItemCursors("a")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
