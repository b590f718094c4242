package subscriber

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A markedOne has one record and the mark of its log. Between the two somebody may write.
type markedOne struct {
	storedOne
	mark    store.Position
	markErr error
	between func(*storedOne)
}

func (s *markedOne) Owned(engine.ShardFence) engine.Owned { return markedOwned{s: s} }

type markedOwned struct {
	engine.Owned
	s *markedOne
}

func (o markedOwned) Mark(context.Context, string) (store.Position, error) {
	if o.s.between != nil {
		o.s.between(&o.s.storedOne)
	}
	return o.s.mark, o.s.markErr
}

// HOOK-6, REP-10: what is told of a subscription that lives elsewhere is a safe cursor: that of the mark only if
// nothing up to it is unsettled, also when its owner writes while it is read.
func TestHOOK6StoredCursor(t *testing.T) {
	away := errors.New("connection lost")
	et := newEventType(t)
	for i := range 9 {
		et.Emit(eventtypetest.Incident{ID: fmt.Sprint("x", i), Service: "api"})
	}
	opens := func(s *storedOne) { s.r.Progress = store.Progress{Epoch: s.r.Progress.Epoch, Base: 4, Open: true} }
	for name, c := range map[string]struct {
		open    bool
		mark    store.Position
		between func(*storedOne)
		markErr error
		readErr error
		want    store.Position
		err     error
	}{
		"open":                       {open: true, mark: 6, want: 3},
		"closed":                     {mark: 6, want: 6},
		"closed after the mark":      {mark: 2, want: 3},
		"opened meanwhile":           {mark: 6, between: opens, want: 4},
		"deleted meanwhile":          {mark: 6, between: func(s *storedOne) { s.there = false }, want: 3},
		"made again meanwhile":       {mark: 6, between: func(s *storedOne) { s.r.Generation++ }, want: 3},
		"the mark cannot be read":    {mark: 6, markErr: away, err: away},
		"the record cannot be read":  {mark: 6, readErr: away, err: away},
		"open, and nothing is asked": {open: true, markErr: away, readErr: away, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := store.Subscription{ID: "s", Event: "e", Generation: 3, Progress: store.Progress{Epoch: et.Topic().Epoch(), Base: 3, Open: c.open}}
			s := &markedOne{storedOne: storedOne{r: r, there: true, readErr: c.readErr}, mark: c.mark, markErr: c.markErr, between: c.between}
			w := &Subscriptions{store: s}
			got, err := w.storedCursor(t.Context(), et, et.Current(), &r)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			want := et.Topic().Cursor(et.Current().Kernel(), c.want)
			if err == nil && *got != *want {
				t.Errorf("the cursor is %s, want %s, that of %d", *got, *want, c.want)
			}
		})
	}
}

// REP-10, REP-6: a record that was admitted while its shard had another owner goes on from what that one has stored.
func TestREP10AdmittedUnderAnotherOwner(t *testing.T) {
	away := errors.New("connection lost")
	admitted := store.Subscription{ID: "s", Event: "e", Generation: 3, Progress: store.Progress{Epoch: 1, Base: 3, Open: true}}
	delivered := admitted
	delivered.Progress, delivered.Health = store.Progress{Epoch: 1, Base: 5}, store.Health{LastError: "timeout"}
	delivered.Report = &store.Report{Owner: "a"}
	again := delivered
	again.Generation++
	for name, c := range map[string]struct {
		s     storedOne
		there bool
	}{
		"delivered":  {storedOne{r: delivered, there: true}, true},
		"deleted":    {storedOne{}, false},
		"made again": {storedOne{r: again, there: true}, false},
		"away":       {storedOne{r: delivered, there: true, readErr: away}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := admitted
			there, err := (&Subscriptions{store: &c.s}).readProgress(t.Context(), &r)
			if there != c.there || !errors.Is(err, c.s.readErr) {
				t.Fatalf("%v, %v", there, err)
			}
			if want := map[bool]store.Subscription{true: delivered, false: admitted}[there]; !reflect.DeepEqual(r, want) {
				t.Errorf("it goes on as %+v", r)
			}
		})
	}
}
