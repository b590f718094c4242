package changes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/changes"
)

func since(t *testing.T, l *changes.List, m engine.Mark) engine.Changed {
	t.Helper()
	c, _, err := l.Since(m)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Each name after the mark is reported once, and marks stay valid whoever reads.
func TestSince(t *testing.T) {
	l := changes.New()
	l.Tell("before")
	start := since(t, l, "")
	if len(start.Names) != 0 || start.Next == "" || start.AsOf.IsZero() {
		t.Errorf("the current mark: %+v", start)
	}
	l.Tell("a", "b")
	l.Tell("a", "c")
	for range 2 {
		if c := since(t, l, start.Next); !slices.Equal(slices.Sorted(slices.Values(c.Names)), []string{"a", "b", "c"}) {
			t.Errorf("since the first mark: %v", c.Names)
		}
	}
	if c := since(t, l, since(t, l, start.Next).Next); len(c.Names) != 0 {
		t.Errorf("since the end: %v", c.Names)
	}
}

// A mark that the list cannot answer for is refused: of another life or list, malformed, or dropped by age or number.
func TestCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := changes.New()
		refused := func(what string, m engine.Mark) {
			t.Helper()
			if c, _, err := l.Since(m); !errors.Is(err, engine.ErrCompacted) {
				t.Errorf("%s: %+v, %v", what, c, err)
			}
		}
		refused("another list", since(t, changes.New(), "").Next)
		first := since(t, l, "").Next
		for _, m := range []engine.Mark{"x", ".", first + "9", first[:len(first)-1], "x." + first} {
			refused(fmt.Sprintf("malformed %q", m), m)
		}
		for range changes.MaxNames {
			l.Tell("n")
		}
		if c := since(t, l, first); len(c.Names) != 1 {
			t.Errorf("%d names", len(c.Names))
		}
		l.Tell("n")
		refused("too many names", first)
		aged := since(t, l, "").Next
		l.Tell("old")
		time.Sleep(engine.ChangesAge / 2)
		l.Tell("young")
		young := since(t, l, "").Next
		time.Sleep(engine.ChangesAge / 2)
		if c := since(t, l, aged); len(c.Names) != 2 {
			t.Errorf("at ChangesAge: %v", c.Names)
		}
		time.Sleep(time.Second)
		refused("too old", aged)
		since(t, l, young)
		l.Reset()
		refused("another life", young)
	})
}

// Wait returns at the first name, at the end of the wait, of the context and at the error of the check.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := changes.New()
		var closed atomic.Bool
		check := func() error {
			if closed.Load() {
				return errors.New("closed")
			}
			return nil
		}
		for name, test := range map[string]struct {
			act   func()
			after time.Duration
			err   error
			names int
		}{
			"told":  {act: func() { l.Tell("a") }, after: time.Second, names: 1},
			"over":  {act: func() {}, after: time.Minute},
			"reset": {act: l.Reset, after: time.Second, err: engine.ErrCompacted},
			"check": {act: func() { closed.Store(true); l.Wake() }, after: time.Second, err: errors.New("closed")},
			"wake":  {act: l.Wake, after: time.Minute},
		} {
			closed.Store(false)
			mark := since(t, l, "").Next
			began := time.Now()
			time.AfterFunc(time.Second, test.act)
			c, err := l.Wait(t.Context(), mark, time.Minute, check)
			if fmt.Sprint(err) != fmt.Sprint(test.err) || len(c.Names) != test.names || time.Since(began) != test.after {
				t.Errorf("%s: %v, %v after %v", name, c.Names, err, time.Since(began))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		closed.Store(false)
		if _, err := l.Wait(ctx, since(t, l, "").Next, time.Minute, check); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context: %v", err)
		}
		if c, err := l.Wait(t.Context(), "", time.Minute, check); err != nil || c.Next == "" {
			t.Errorf("the current mark: %+v, %v", c, err)
		}
	})
}
