package enginetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var readTests = []test{
	{"Get returns records in the order of keys, and includes what was answered", testGet},
	{"Get of the maximum number of keys is from one moment", testGetMoment},
	{"Scan returns the records of a prefix in byte order of keys, by pages", testScan},
	{"Scan returns large records, by pages of any size", testScanLarge},
	{"A page of Scan is from one moment", testScanMoment},
}

func testGet(t *testing.T, w *world) {
	a, b := w.pair()
	if found := getAll(t, a, store.Latest); len(found) != 0 {
		t.Errorf("Get of no keys: %v", found)
	}
	var keys []string
	for i := range store.MaxGet + 1 {
		keys = append(keys, fmt.Sprint("k/", i))
	}
	if _, err := a.Get(t.Context(), store.Latest, keys...); err == nil {
		t.Error("Get takes more than MaxGet keys")
	}
	var on uint64
	for i := range 20 {
		writer, reader := a, b
		if i%2 == 1 {
			writer, reader = b, a
		}
		on = put(t, writer, "k", fmt.Sprint(i), on)
		if r := get(t, reader, "k"); r.Revision != on || textOf(r.Value) != fmt.Sprint(i) {
			t.Fatalf("after write %d was answered: %+v", i, r)
		}
	}
	malformed := []string{"", "k/", "/k", "k//k", "k k", "k\x00", "\xff", strings.Repeat("k", store.MaxKey+1)}
	for i, r := range getAll(t, a, store.Latest, malformed...) {
		if r.Key != malformed[i] || r.Value != nil || r.Revision != 0 {
			t.Errorf("Get of the malformed key %q: %+v", malformed[i], r)
		}
	}
	put(t, a, "j", "J", 0)
	for _, c := range []store.Consistency{store.Latest, store.Stale} {
		found := getAll(t, a, c, "none", "k", "j", "k")
		if c == store.Latest && (found[0].Value != nil || textOf(found[1].Value) != "19" || textOf(found[2].Value) != "J" || found[3].Revision != on) {
			t.Errorf("consistency %d: %v", c, found)
		}
	}
}

func testGetMoment(t *testing.T, w *world) {
	a, b := w.pair()
	var keys []string
	create := &store.Commit{}
	for i := range store.MaxGet {
		keys = append(keys, fmt.Sprintf("k/%03d", i))
		create.Writes = append(create.Writes, store.Write{Key: keys[i], Value: text("0")})
	}
	on := apply(t, a, create)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for round := 0; ; round++ {
			select {
			case <-done:
				return
			default:
			}
			c := &store.Commit{}
			for i, k := range keys {
				c.Writes = append(c.Writes, store.Write{Key: k, On: on[i], Value: text(fmt.Sprint(round))})
			}
			revisions, applied := try(t, a, c)
			if !applied {
				t.Error("a conflict with nobody")
				return
			}
			on = revisions
			runtime.Gosched()
		}
	})
	for i := range 60 {
		c := []store.Consistency{store.Latest, store.Stale}[i%2]
		found := getAll(t, b, c, keys...)
		for _, r := range found {
			if r.Call != found[0].Call || textOf(r.Value) != textOf(found[0].Value) {
				t.Errorf("consistency %d: %s is from another moment than %s", c, r.Key, found[0].Key)
				break
			}
		}
		runtime.Gosched()
	}
	close(done)
	wg.Wait()
}

func testScan(t *testing.T, w *world) {
	a, b := w.pair()
	all := []string{"a", "a-", "a-/1", "a.1", "a/-", "a/.", "a/0", "a/1", "a/1-", "a/1/2", "a/10", "a/1=", "a/2", "a/Z", "a/_", "a/a", "a/z", "a0", "a0/1", "aa", "b/1"}
	if !slices.IsSorted(all) {
		t.Fatal("the keys of the test are not in byte order")
	}
	for i := range all {
		key := all[i*13%len(all)]
		put(t, []engine.Engine{a, b}[i%2], key, "v"+key, 0)
	}
	remove(t, b, "a/0x", put(t, a, "a/0x", "v", 0)) // deletions are not shown
	for _, prefix := range []string{"", "a", "a/", "a/1", "a/1/", "a/1/2", "a/1/2/", "a-", "a0", "b", "c", "A", "aaa", "a/z/"} {
		var want []string
		for _, k := range all {
			if strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		for _, limit := range []int{1, 2, 3, 1000} {
			found := scan(t, a, prefix, limit)
			if got := keysOf(found); !slices.Equal(got, want) {
				t.Errorf("prefix %q in pages of %d: %q, want %q", prefix, limit, got, want)
			}
			for _, r := range found {
				if textOf(r.Value) != "v"+r.Key || r.Revision == 0 || r.Call == 0 {
					t.Errorf("%+v", r)
				}
			}
		}
	}
	for _, tc := range []struct {
		prefix, after string
		limit         int
		want          []string
	}{
		{"a/", "a/1", 3, []string{"a/1-", "a/1/2", "a/10"}},
		{"a/", "a/11", 2, []string{"a/1=", "a/2"}}, // a key that does not exist
		{"a/", "a/0x", 1, []string{"a/1"}},         // a deleted key
		{"a/", "a", 2, []string{"a/-", "a/."}},     // before the prefix
		{"a/", "A/9", 1, []string{"a/-"}},
		{"a/", "a/z", 9, nil}, // the last one
		{"a/", "b", 9, nil},   // after the prefix
		{"a/", "", 0, nil},
		{"a/", "", -1, nil},
		{"", "aa", 9, []string{"b/1"}},
	} {
		page, err := b.Scan(t.Context(), tc.prefix, tc.after, tc.limit)
		if err != nil || !slices.Equal(keysOf(page), tc.want) {
			t.Errorf("Scan(%q, %q, %d) = %q, %v; want %q", tc.prefix, tc.after, tc.limit, keysOf(page), err, tc.want)
		}
	}
}

func testScanLarge(t *testing.T, w *world) {
	e := w.process()
	const n = 60
	large := strings.Repeat("x", store.MaxValue)
	for i := range n {
		put(t, e, fmt.Sprintf("large/%02d", i), large, 0)
	}
	found := scan(t, e, "large/", 1000)
	for i, r := range found {
		if r.Key != fmt.Sprintf("large/%02d", i) || len(textOf(r.Value)) != len(large) {
			t.Fatalf("record %d is %s with %d bytes", i, r.Key, len(textOf(r.Value)))
		}
	}
	if len(found) != n {
		t.Errorf("%d of %d records", len(found), n)
	}
}

// testScanMoment moves a record between two places. A page that has both, or neither one, is from two moments.
func testScanMoment(t *testing.T, w *world) {
	a, b := w.pair()
	for i := range 50 {
		put(t, a, fmt.Sprintf("m/%02d", i), "v", 0)
	}
	on := put(t, a, "m/00a", "v", 0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		from, to, gone := "m/00a", "m/99", uint64(0)
		for range 100 {
			revisions, err := a.Commit(context.Background(), &store.Commit{Call: newCall(), Writes: []store.Write{{Key: from, On: on}, {Key: to, On: gone, Value: text("v")}}})
			if err != nil {
				t.Error(err)
				return
			}
			from, to, gone, on = to, from, revisions[0], revisions[1]
		}
	})
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		page, err := b.Scan(t.Context(), "m/", "", 100)
		if err != nil || len(page) != 51 {
			t.Errorf("%d records, %v", len(page), err)
			break
		}
	}
	wg.Wait()
}
