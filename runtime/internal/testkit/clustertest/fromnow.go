package clustertest

import (
	"fmt"
	"slices"
	"time"
)

// fromNow tests that a poll, a stream and a webhook subscription without a cursor at one process begin after everything
// that another process has acknowledged, even immediately before.
func fromNow(f *fleet) {
	f.start(3)
	a, c := f.members[0], f.members[2]
	for i := range 12 {
		id := fmt.Sprintf("before%d", i)
		var cursor *string
		switch i % 3 {
		case 0:
			a.emit(incident{ID: id})
			cursor = c.poll(nil, "").Cursor
		case 1:
			a.emit(incident{ID: id})
			s := c.stream("", `{"name":"e"}`)
			a.emit(incident{ID: "after" + id})
			f.soon("an event", func() bool { return len(s.ids()) > 0 })
			f.equal("the stream", s.ids(), "after"+id)
			s.end()
			continue
		case 2:
			a.emit(incident{ID: id})
			cursor = c.subscribe("ann", params(hook(i), secretA, "")).Cursor
		}
		time.Sleep(2 * time.Second) // the process reads the store, however late
		if page := c.poll(cursor, ""); slices.Contains(page.ids(), id) {
			f.Errorf("step %d begins before %s, which was acknowledged: %s", i, id, page.ids())
		}
	}
}
