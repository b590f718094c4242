package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// damagePage puts garbage into the page of a SQLite file that holds a text.
func damagePage(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(file, []byte(text))
	if at < 0 {
		t.Fatalf("%s is not in the file", text)
	}
	at -= at % 4096
	copy(file[at:at+300], bytes.Repeat([]byte{0xa5}, 300))
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
}

// inOrder reports what is wrong with events that were read over damage: everything but one range has to be there, once
// and in order, with one sign of truncation in the place of the range. It returns the range, as indices.
func inOrder(t *testing.T, reader string, got []string, n int) (first, last int) {
	t.Helper()
	gap := slices.Index(got, "truncated")
	if gap < 1 {
		t.Fatalf("%s: nothing is truncated in %d: %v", reader, len(got), got)
	}
	fmt.Sscanf(got[gap-1], "i%d", &first)
	first++
	last = first + n - len(got)
	var want []string
	for i := range n {
		if i < first || i > last {
			want = append(want, fmt.Sprint("i", i))
		}
	}
	if want = slices.Insert(want, gap, "truncated"); !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", reader, got, want)
	}
	return first, last
}

// A damaged page in the middle of a SQLite log costs the entries in it and no others: whoever reads over it, by
// whatever way, gets a gap in their place and the entries after it, and the operator sees which are lost (CUR-9).
func TestCUR9DamagedPage(t *testing.T) {
	const n = 400
	path := filepath.Join(t.TempDir(), "events.db")
	var said bytes.Buffer
	bubble(t, func(o *Options) {
		o.Store = openFile(t, path)
		o.Logger = slog.New(slog.NewTextHandler(&said, nil))
	}, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		start := pollFrom(t, w.Server, nil, "").Cursor
		w.r.on(refuseAll)
		time.Sleep(time.Second)
		began := time.Now()
		for i := range n {
			emit(t, e, incident{ID: fmt.Sprint("i", i)})
		}
		w.restart(func(o *Options) {
			o.Store.Close()
			damagePage(t, path, `"id":"i145"`) // a search by time looks there
			o.Store = openFile(t, path)
			t.Cleanup(func() { o.Store.Close() })
		})
		e = register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.r.on(nil)
		cursor, _ := json.Marshal(start)

		var polled []string
		at := start
		for more := true; more; {
			r := pollFrom(t, w.Server, at, `,"maxEvents":30`)
			if *r.Truncated { // it stands for what was skipped before, within or after the page of a poll
				polled = append(polled, "truncated")
			}
			polled = append(polled, r.ids()...)
			at, more = r.Cursor, *r.HasMore
		}
		live := stream(t, w.Server, fmt.Sprintf(`{"name":"e","cursor":%s}`, cursor))
		w.subscribe("alice", params(plain, secretA, fmt.Sprintf(`,"cursor":%s`, cursor)))
		w.settle(time.Minute)
		var streamed []string
		for _, f := range live.frames()[1:] {
			if f.params.EventID != "" {
				streamed = append(streamed, f.params.EventID)
			} else if f.params.Truncated {
				streamed = append(streamed, "truncated")
			}
		}
		first, last := inOrder(t, "stream", streamed, n)
		if first > 145 || last < 145 {
			t.Errorf("%d to %d are damaged, 145 is", first, last)
		}
		if i := slices.Index(polled, "truncated"); i < 0 {
			t.Errorf("polls: nothing is truncated in %v", polled)
		} else if polled = slices.Delete(polled, i, i+1); !slices.Equal(polled, slices.DeleteFunc(slices.Clone(streamed), func(s string) bool { return s == "truncated" })) {
			t.Errorf("polls: %v", polled)
		}
		sent := w.r.shorts()
		gaps := slices.DeleteFunc(slices.Clone(sent), func(s string) bool { return !strings.HasPrefix(s, "gap") })
		sent = slices.DeleteFunc(sent, func(s string) bool { return strings.HasPrefix(s, "gap") })
		slices.Sort(sent)
		slices.Sort(polled)
		if !slices.Equal(sent, polled) || len(gaps) != 1 {
			t.Errorf("webhook: %v and %v", sent, gaps)
		}

		// A cursor of an entry that is damaged now, and a time.
		c, err := wire.ParseCursor(*start)
		if err != nil {
			t.Fatal(err)
		}
		c.Position, c.Proof = uint64(first+2), 7
		text := c.String()
		if r := pollFrom(t, w.Server, &text, ""); !*r.Truncated || r.ids()[0] != fmt.Sprint("i", last+1) {
			t.Errorf("from a damaged entry: truncated %v, %v", *r.Truncated, r.ids())
		}
		b, err := w.Admin().Locate(t.Context(), "e", operator.Point{Since: began})
		if err != nil || b.EventID != "i0" {
			t.Errorf("since a time before all: %+v, %v", b, err)
		}
		emit(t, e, incident{ID: "new"})
		if live.cancel(); w.Ready(t.Context()) != nil {
			t.Error("not ready")
		}
		types := w.Admin().EventTypes(t.Context())
		want := fmt.Sprintf("event=e first=%d last=%d ", first+1, last+1)
		if log := said.String(); strings.Count(log, "are damaged") != 1 || !strings.Contains(log, want) || types[0].Damaged != int64(last-first)+1 {
			t.Errorf("%d are known to be damaged; want %q in %s", types[0].Damaged, want, log)
		}
	})
}

// openFile opens the store at path.
func openFile(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{Synchronous: sqlite.Normal})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An entry that a store marks as for nobody, as PostgreSQL's does with what it cannot decode, is a gap as well (CUR-9).
func TestCUR9UndecodedEntry(t *testing.T) {
	st := memory.New()
	log, err := st.OpenLog(t.Context(), "e", store.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, targets := range [][]string{nil, {}, {}, nil} {
		e := store.Entry{EventID: fmt.Sprint("i", i), Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{"id":"i"}`), Targets: targets}
		if _, err := log.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	s := newServer(t, Options{Operators: operators.New(), Store: st})
	register(t, s, "e", Hooks[filterArgs, incident]{})
	now, err := wire.ParseCursor(*pollFrom(t, s, nil, "").Cursor)
	if err != nil {
		t.Fatal(err)
	}
	c := wire.Cursor{Kind: wire.LogCursor, Name: now.Name, Epoch: now.Epoch}
	for from, truncated := range []bool{true, true, true, false} {
		c.Position = uint64(from)
		text := c.String()
		if r := pollFrom(t, s, &text, ""); *r.Truncated != truncated || r.ids()[len(r.ids())-1] != "i3" || len(r.ids()) > 2 {
			t.Errorf("from %d: truncated %v, %v", from, *r.Truncated, r.ids())
		}
	}
	if n := s.Admin().EventTypes(t.Context())[0].Damaged; n != 2 {
		t.Errorf("%d entries are known to be damaged", n)
	}
}
