package sqlite_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// A sample is a file with rows in each table, and the contents of its logs. With wal, the last writes are only in the
// journal, as after a crash.
type sample struct {
	db, wal []byte
	logs    map[string][]store.Entry
}

var samples = sync.OnceValues(func() ([2]sample, error) {
	var both [2]sample
	for i := range both {
		s, err := makeSample(i == 1)
		if err != nil {
			return both, err
		}
		both[i] = s
	}
	return both, nil
})

func makeSample(wal bool) (sample, error) {
	dir, err := os.MkdirTemp("", "sample")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(dir)
	ctx, path := context.Background(), filepath.Join(dir, "events.db")
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return sample{}, err
	}
	defer s.Close()
	out := sample{logs: map[string][]store.Entry{}}
	for _, name := range []string{"log", "other"} {
		l, err := s.OpenLog(ctx, name, store.LogOptions{})
		if err != nil {
			return sample{}, err
		}
		for i := range 40 {
			e := entry(fmt.Sprint(name, "-", i))
			e.Data = json.RawMessage(fmt.Sprintf(`{"n":%d,"text":%q}`, i, strings.Repeat("x", i*i%700)))
			if i%3 == 0 {
				e.Meta, e.Targets = json.RawMessage(`{"k":1}`), []string{"sub_1", "sub_2"}
			}
			if i == 20 {
				e.Data = json.RawMessage(`"` + strings.Repeat("long", 5000) + `"`) // on overflow pages
			}
			if e.Position, _, err = l.AppendOnce(ctx, e, 0); err != nil {
				return sample{}, err
			}
			out.logs[name] = append(out.logs[name], e)
		}
	}
	for i := range 5 {
		id := fmt.Sprint("sub_", i)
		_, err1 := s.PutSubscription(ctx, store.Subscription{ID: id, Principal: "p", URL: "https://example.com", Event: "log", Generation: 1,
			Arguments: json.RawMessage(`{}`), Secrets: []store.Secret{{Key: []byte("0123456789abcdef")}}})
		_, err2 := s.PutReceived(ctx, "key", clientstore.Received{EventID: id, Body: []byte(`{}`)})
		err := errors.Join(err1, err2, s.PutVerification(ctx, store.Verification{Principal: "p", URL: id}), s.Save(ctx, id, clientstore.Saved{Cursor: "c", EventIDs: []string{"a"}}),
			s.PutCallback(ctx, id, clientstore.Callback{URL: "u"}), s.PutSchedule(ctx, engine.Schedule{ID: id, Owner: "o", Record: []byte(`{}`)}),
			s.SaveMark(ctx, "log", 3))
		if err != nil {
			return sample{}, err
		}
	}
	if err := s.Close(); err != nil {
		return sample{}, err
	}
	if wal {
		s, err := sqlite.Open(ctx, path, sqlite.Options{})
		if err != nil {
			return sample{}, err
		}
		defer s.Close()
		l, err := s.OpenLog(ctx, "log", store.LogOptions{})
		if err != nil {
			return sample{}, err
		}
		for i := range 5 {
			e := entry(fmt.Sprint("late-", i))
			if e.Position, err = l.Append(ctx, e); err != nil {
				return sample{}, err
			}
			out.logs["log"] = append(out.logs["log"], e)
		}
		if out.wal, err = os.ReadFile(path + "-wal"); err != nil {
			return sample{}, err
		}
	}
	out.db, err = os.ReadFile(path)
	return out, err
}

// FuzzFile changes bytes of a file: opening or reading it gives an error, or the original contents. A damaged journal
// may give less, because SQLite cannot distinguish it from a torn one. Each four bytes of the input are an offset and
// a number that is added to the byte there.
func FuzzFile(f *testing.F) {
	for _, place := range []uint32{0, 18, 60, 100, 105, 4096, 4100, 9000, 20000, 33333, 50000, 70001} {
		f.Add(false, binary.BigEndian.AppendUint32(nil, place<<8|1))
		f.Add(true, binary.BigEndian.AppendUint32(nil, place<<8|0x80))
	}
	f.Fuzz(func(t *testing.T, wal bool, changes []byte) {
		both, err := samples()
		if err != nil {
			t.Fatal(err)
		}
		base := both[0]
		if wal {
			base = both[1]
		}
		path := filepath.Join(t.TempDir(), "events.db")
		all := append(append([]byte{}, base.db...), base.wal...)
		for ; len(changes) >= 4; changes = changes[4:] {
			c := binary.BigEndian.Uint32(changes)
			all[int(c>>8)%len(all)] += byte(c)
		}
		if err := os.WriteFile(path, all[:len(base.db)], 0o600); err != nil {
			t.Fatal(err)
		}
		if wal {
			if err := os.WriteFile(path+"-wal", all[len(base.db):], 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Wait: -1, Synchronous: sqlite.Normal, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			return
		}
		defer s.Close()
		for name, want := range base.logs {
			readDamaged(t, s, name, want, wal)
		}
		readRest(t, s)
	})
}

// readDamaged reads a log that may be damaged and compares it with its original contents.
func readDamaged(t *testing.T, s *sqlite.Store, name string, want []store.Entry, torn bool) {
	l, err := s.OpenLog(t.Context(), name, store.LogOptions{})
	if err != nil {
		return
	}
	_, head, _ := l.Bounds(t.Context())
	if head > 0 && head < store.Position(len(want)) && !torn {
		t.Fatalf("%s: the last entry is %d", name, head)
	}
	check := func(e store.Entry) {
		if e.EventID == "new" && e.Position > head {
			return // a new log, because the old one was not found, or after a torn journal
		}
		if e.Position < 1 || int(e.Position) > len(want) {
			t.Fatalf("%s: an entry %d was never written: %+v", name, e.Position, e)
		}
		w := want[e.Position-1]
		if e.EventID != w.EventID || e.Timestamp.String() != w.Timestamp.String() || string(e.Data) != string(w.Data) ||
			string(e.Meta) != string(w.Meta) || store.Audience(e.Targets) != store.Audience(w.Targets) || e.Cursor != w.Cursor {
			t.Fatalf("%s: entry %d is %+v, was %+v", name, e.Position, e, w)
		}
	}
	for _, at := range want {
		if b, err := l.Read(t.Context(), at.Position-1, 3); err == nil {
			for i, e := range b.Entries {
				if e.Position != at.Position+store.Position(i) && !b.Gap {
					t.Fatalf("%s: position %d after %d without a gap", name, e.Position, at.Position-1)
				}
				check(e)
			}
		}
		other := at
		other.Data = json.RawMessage(`{}`)
		if head == store.Position(len(want)) && at.Position%8 == 0 {
			if p, fresh, err := l.AppendOnce(t.Context(), other, head); fresh && p <= head {
				t.Fatalf("%s: a new entry at %d", name, p)
			} else if err == nil || errors.Is(err, events.ErrIDReused) && p <= head {
				return // the log has other entries now
			}
		}
	}
	l.Append(t.Context(), entry("new"))
	if b, err := l.Read(t.Context(), 0, 1000); err == nil {
		for _, e := range b.Entries {
			check(e)
		}
	}
}

// readRest reads data without checksums, which may be wrong but must do no harm.
func readRest(t *testing.T, s *sqlite.Store) {
	ctx := t.Context()
	s.Subscriptions(ctx, "", 100)
	s.CountSubscriptions(ctx, "p")
	s.Mark(ctx, "log")
	s.Received(ctx, "key", 0, 100)
	s.Schedules(ctx, "", 100)
	s.Queue(ctx, "sub_1", 0, 100)
	s.IntakeCursor(ctx, "x")
	for i := range 5 {
		id := fmt.Sprint("sub_", i)
		s.Subscription(ctx, id)
		s.Load(ctx, id)
		s.Callback(ctx, id)
		s.Verification(ctx, "p", id)
		s.DeleteSubscription(ctx, id, 1)
		s.TakeReceived(ctx, "key", 3, clientstore.Saved{Cursor: "d"})
	}
}

// A missing entry is an error, not a hole; the entries before and after it can be read.
func TestMissingEntry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	appendAll(t, openLog(t, s, store.LogOptions{}), "1", "2", "3", "4", "5", "6")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	exec1(t, path, "DELETE FROM entries WHERE position = 4")
	if s, err = sqlite.Open(t.Context(), path, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	l := openLog(t, s, store.LogOptions{})
	for _, limit := range []int{1, 10} {
		b, err := l.Read(t.Context(), 3, limit)
		var d *store.DamagedError
		if !errors.As(err, &d) || d.Position != 4 || !errors.Is(err, sqlite.ErrCorrupt) || !strings.Contains(err.Error(), "entry 4 of log") || b.Entries != nil {
			t.Errorf("by %d: %+v, %v", limit, b, err)
		}
	}
	for after, limit := range map[store.Position]int{0: 10, 2: 2, 4: 10} {
		if b, err := l.Read(t.Context(), after, limit); err != nil || b.Gap || b.Entries[0].Position != after+1 {
			t.Errorf("after %d: %+v, %v", after, b, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for query, head := range map[string]string{"UPDATE logs SET head = 5": "5", "UPDATE logs SET head = -6": "-6", "UPDATE logs SET head = 7": "7"} {
		exec1(t, path, query)
		s := open(t, path, sqlite.Options{})
		if _, err := s.OpenLog(t.Context(), "log", store.LogOptions{}); !errors.Is(err, sqlite.ErrCorrupt) || !strings.Contains(err.Error(), head) {
			t.Errorf("%s: %v", query, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A changed byte within an entry is detected, wherever it is; its neighbors can be read.
func TestChangedByte(t *testing.T) {
	both, err := samples()
	if err != nil {
		t.Fatal(err)
	}
	for text, bad := range map[string]int{`"n":17,`: 2, `"log-17`: 0, "log-17": 1, "other-33": 1, "longlong": 2, "T08:00:00Z": 80} {
		all := []byte(strings.ReplaceAll(string(both[0].db), text, text[:len(text)-2]+"?"+text[len(text)-1:]))
		path := filepath.Join(t.TempDir(), "events.db")
		noticed := 0
		if err := os.WriteFile(path, all, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, path, sqlite.Options{})
		good := 0
		for name, want := range both[0].logs {
			l, err := s.OpenLog(t.Context(), name, store.LogOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range want {
				b, err := l.Read(t.Context(), e.Position-1, 1)
				switch {
				case errors.Is(err, sqlite.ErrCorrupt):
					noticed++
				case err != nil || len(b.Entries) != 1 || string(b.Entries[0].Data) != string(e.Data) || b.Entries[0].EventID != e.EventID:
					t.Errorf("%s: %+v, %v", text, b.Entries, err)
				default:
					good++
				}
			}
		}
		if noticed != bad || good != 80-bad {
			t.Errorf("%s: noticed %d times, %d entries can be read", text, noticed, good)
		}
	}
}
