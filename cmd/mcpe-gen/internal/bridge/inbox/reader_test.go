package inbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func reader(t *testing.T, b *Inbox, name string) *Reader {
	t.Helper()
	r, err := b.Reader(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// unread are the IDs of the batches that a reader has unread, with a star if they were announced to it.
func unread(r *Reader) (all []string) {
	batches, marks := r.Unread(-1, nil)
	for i, u := range batches {
		id := u.ID()
		if marks[i].Announced {
			id += "*"
		}
		all = append(all, id)
	}
	return all
}

func wantUnread(t *testing.T, r *Reader, ids ...string) {
	t.Helper()
	if got := unread(r); !slices.Equal(got, ids) {
		t.Fatalf("%s has %q unread, not %q", r.name, got, ids)
	}
}

func must(t *testing.T, n int, err error) {
	t.Helper()
	if err != nil || n == 0 {
		t.Fatal(n, err)
	}
}

func addTo(t *testing.T, b *Inbox, ids ...string) {
	t.Helper()
	for _, id := range ids {
		n, err := b.Add(t.Context(), Batch{Subscription: "s"}, []Event{event(id)}, false)
		must(t, n, err)
	}
}

// BRIDGE-2: what somebody shows is nobody else's until it is given back or read.
func TestBRIDGE2Lease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox")
	b := open(t, path, Options{Batches: 10, Bytes: 1 << 20, Events: 2})
	if _, err := b.Add(t.Context(), Batch{Subscription: "s"}, []Event{event("1"), event("2"), event("3")}, false); err != nil {
		t.Fatal(err)
	}
	r, other := reader(t, b, "r"), reader(t, b, "other")
	first := r.Take(1, nil) // at least one batch, whatever it has
	second := r.Take(9, nil)
	if n := r.Count(nil); n != 0 || len(ids(b)) != 0 {
		t.Errorf("%d that are taken are counted", n)
	}
	wantUnread(t, other, "b1", "b2")
	if first == nil || len(first.Batches) != 1 || second == nil || len(second.Batches) != 1 || r.Take(9, nil) != nil {
		t.Fatal(first, second)
	}
	second.Release()
	wantUnread(t, r, "b2")
	second = r.Take(9, nil)
	n, err := r.Read(1)
	must(t, n, errors.Join(err, b.Mark(func(m *Mark) { m.Commanded = true }, 2)))
	first.Release()
	second.Release()
	if third := r.Take(9, func(_ *Batch, m Mark) bool { return m.Commanded }); third == nil || third.Batches[0].ID() != "b2" {
		t.Fatal(third)
	}
	if err := errors.Join(other.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	want := []string{"b2 s 1 3{false true }"}
	if got := ids(open(t, path, Options{})); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// BRIDGE-9: each reader has its own position, also after the file is opened again. A new one begins with what nobody
// has read, and what a reader leaves unread stays for whoever comes next unless somebody has read it.
func TestBRIDGE9Readers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox")
	o := Options{Batches: 10, Bytes: 1 << 20, Events: 2}
	b := open(t, path, o)
	addTo(t, b, "1", "2", "3")
	x, y := reader(t, b, "x"), reader(t, b, "y")
	n, err := x.Read(1, 1, 2)
	if must(t, n, errors.Join(err, y.Announced(3))); n != 2 {
		t.Errorf("%d read", n)
	}
	wantUnread(t, x, "b3")
	wantUnread(t, y, "b1", "b2", "b3*")
	wantUnread(t, reader(t, b, "z"), "b3*")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, path, o)
	if got := b.Readers(); !slices.Equal(got, []string{"x", "y", "z"}) {
		t.Fatalf("readers %q", got)
	}
	x, y, z := reader(t, b, "x"), reader(t, b, "y"), reader(t, b, "z")
	wantUnread(t, x, "b3")
	wantUnread(t, y, "b1", "b2", "b3*")
	n, err = y.Read(1)
	must(t, n, err)
	addTo(t, b, "4")
	wantUnread(t, z, "b3*", "b4")
	if n, err := b.Add(t.Context(), Batch{Subscription: "s"}, []Event{event("1"), event("2")}, false); n != 0 || err != nil {
		t.Errorf("%d added twice: %v", n, err)
	}
	if err := errors.Join(y.Close(), x.Close(), z.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	b = open(t, path, o)
	wantUnread(t, reader(t, b, "later"), "b3*", "b4") // b2 was read by x
}

// BRIDGE-9: in a full inbox a reader that does not read does not hold up the one that does, and learns what it has
// missed.
func TestBRIDGE9Missed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox")
	o := Options{Batches: 2, Bytes: 1 << 20, Events: 2}
	b := open(t, path, o)
	busy, idle := reader(t, b, "busy"), reader(t, b, "idle")
	for i := range uint64(5) {
		addTo(t, b, fmt.Sprint(i))
		n, err := busy.Read(i + 1)
		must(t, n, err)
	}
	wantUnread(t, idle, "b4", "b5")
	if n := idle.Missed(); n != 3 || busy.Missed() != 0 {
		t.Errorf("%d are missed", n)
	}
	if err := errors.Join(idle.Reported(2), b.Close()); err != nil {
		t.Fatal(err)
	}
	b = open(t, path, o)
	busy, idle = reader(t, b, "busy"), reader(t, b, "idle")
	if n := idle.Missed(); n != 1 {
		t.Errorf("%d are missed after 2 of 3 are reported", n)
	}
	// What nobody has read holds up, and so does what somebody shows.
	l := idle.Take(9, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Add(ctx, Batch{}, []Event{event("x")}, false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	l.Release()
	addTo(t, b, "y", "z")
	wantUnread(t, busy, "b6", "b7")
	if _, err := b.Add(ctx, Batch{}, []Event{event("x")}, false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// BRIDGE-2, BRIDGE-9: if the disk refuses what a reader has read, the memory has it unread as before, marks and all.
func TestBRIDGE2ReadRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b := open(t, filepath.Join(dir, "inbox"), Options{Batches: 100, Bytes: 1 << 20, Events: 1, Remember: 1})
	addTo(t, b, "1", "2", "3")
	x, y := reader(t, b, "x"), reader(t, b, "y")
	n, err := b.Read(1)
	must(t, n, err)
	l := x.Take(1, nil)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	refused := func(n int, err error) {
		t.Helper()
		if n != 0 || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d in a directory that is gone: %v", n, err)
		}
	}
	refused(b.Read(2, 3))
	refused(x.Read(2))
	refused(0, y.Announced(2))
	refused(0, b.Mark(func(m *Mark) { m.Failure = "f" }, 3))
	refused(0, x.Close())
	if _, err := b.Reader("z"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	l.Release()
	for _, r := range []*Reader{x, y} {
		wantUnread(t, r, "b2", "b3")
	}
	if _, marks := b.Unread(-1, nil); !slices.Equal(marks, make([]Mark, 2)) || len(b.Readers()) != 2 || len(b.stones) != 1 {
		t.Errorf("%+v, readers %q, %d stones", marks, b.Readers(), len(b.stones))
	}
}
