package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// TestCursors runs the test suite for [clientstore.CursorStore]; open returns an empty store. See CLI-6.
func TestCursors(t *testing.T, open func(t *testing.T) clientstore.CursorStore) {
	ctx := t.Context()
	t.Run("CLI-6: Load returns the last value that was saved", func(t *testing.T) {
		c := open(t)
		if _, ok, err := c.Load(ctx, "k"); ok || err != nil {
			t.Fatalf("Load of nothing = %v, %v", ok, err)
		}
		ids := []string{"a", "b"}
		for _, s := range []clientstore.Saved{{Cursor: "1"}, {Cursor: "2", EventIDs: ids}} {
			if err := c.Save(ctx, "k", s); err != nil {
				t.Fatal(err)
			}
			got, ok, err := c.Load(ctx, "k")
			if err != nil || !ok || got.Cursor != s.Cursor || !slices.Equal(got.EventIDs, s.EventIDs) {
				t.Fatalf("Load = %+v, %v, %v; want %+v", got, ok, err, s)
			}
		}
		ids[0] = "changed"
		if got, _, _ := c.Load(ctx, "k"); got.EventIDs[0] != "a" {
			t.Fatal("the store shares the caller's slice")
		}
		if _, ok, _ := c.Load(ctx, "other"); ok {
			t.Fatal("keys are mixed")
		}
	})
	t.Run("Delete forgets", func(t *testing.T) {
		c := open(t)
		if err := c.Save(ctx, "k", clientstore.Saved{Cursor: "1"}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.Delete(ctx, "k"); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok, _ := c.Load(ctx, "k"); ok {
			t.Fatal("still there")
		}
	})
	t.Run("A cancelled context changes nothing", func(t *testing.T) {
		c := open(t)
		dead, cancel := context.WithCancel(ctx)
		cancel()
		if err := c.Save(dead, "k", clientstore.Saved{Cursor: "1"}); !errors.Is(err, context.Canceled) {
			t.Fatalf("Save = %v", err)
		}
		if _, ok, _ := c.Load(ctx, "k"); ok {
			t.Fatal("saved despite the cancelled context")
		}
	})
	t.Run("Concurrent savers: every Load is whole", func(t *testing.T) {
		c := open(t)
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range 10 {
					v := fmt.Sprint(w, "-", i)
					if err := c.Save(ctx, "shared", clientstore.Saved{Cursor: v, EventIDs: []string{v}}); err != nil {
						t.Error(err)
					}
					if err := c.Save(ctx, fmt.Sprint("own", w), clientstore.Saved{Cursor: v}); err != nil {
						t.Error(err)
					}
					if s, ok, err := c.Load(ctx, "shared"); err != nil || !ok || s.EventIDs[0] != s.Cursor {
						t.Errorf("Load = %+v, %v, %v", s, ok, err)
					}
				}
			})
		}
		wg.Wait()
		for w := range 4 {
			if s, _, _ := c.Load(ctx, fmt.Sprint("own", w)); s.Cursor != fmt.Sprint(w, "-", 9) {
				t.Errorf("own%d = %+v", w, s)
			}
		}
	})
}
