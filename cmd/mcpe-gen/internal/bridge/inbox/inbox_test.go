package inbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func open(t *testing.T, path string, o Options) *Inbox {
	t.Helper()
	b, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func event(id string) Event {
	return Event{ID: id, Timestamp: time.Unix(1, 0).UTC(), Data: json.RawMessage(`{"id":"` + id + `"}`)}
}

// ids are those of the events of what is unread, batch by batch, with the count and the mark.
func ids(b *Inbox) (all []string) {
	batches, marks := b.Unread(-1, nil)
	for i, u := range batches {
		text := fmt.Sprintf("%s %s %d", u.ID(), u.Subscription, u.Count)
		for _, e := range u.Events {
			text += " " + e.ID
		}
		all = append(all, fmt.Sprint(text, marks[i]))
	}
	return all
}

// A model is an inbox without a file.
type model struct {
	seqs  []uint64
	subs  map[uint64]string
	of    map[uint64][]string // events of a batch
	marks map[uint64]Mark
	seen  map[string]bool
	last  uint64
}

func newModel() *model {
	return &model{subs: map[uint64]string{}, of: map[uint64][]string{}, marks: map[uint64]Mark{}, seen: map[string]bool{}}
}

func (m *model) clone() *model {
	c := *m
	c.seqs = slices.Clone(m.seqs)
	c.subs, c.of, c.marks, c.seen = maps.Clone(m.subs), maps.Clone(m.of), maps.Clone(m.marks), maps.Clone(m.seen)
	return &c
}

// steps are the states that adding events goes through, one for each batch.
func (m *model) add(sub string, events []string, latest bool, most int) (steps []*model) {
	var fresh []string
	for _, e := range events {
		if !m.seen[sub+e] && !slices.Contains(fresh, e) {
			fresh = append(fresh, e)
		}
	}
	chunks := slices.Collect(slices.Chunk(fresh, most))
	if latest && len(fresh) > 0 {
		chunks = [][]string{fresh}
	}
	for _, c := range chunks {
		m.last++
		m.seqs = append(m.seqs, m.last)
		m.subs[m.last], m.of[m.last] = sub, c
		if latest {
			m.of[m.last] = append([]string{fmt.Sprint(len(c))}, c[len(c)-1])
		} else {
			m.of[m.last] = append([]string{fmt.Sprint(len(c))}, c...)
		}
		for _, e := range c {
			m.seen[sub+e] = true
		}
		steps = append(steps, m.clone())
	}
	return steps
}

func (m *model) read(seqs ...uint64) (n int) {
	for _, s := range seqs {
		if i := slices.Index(m.seqs, s); i >= 0 {
			m.seqs = slices.Delete(m.seqs, i, i+1)
			n++
		}
	}
	return n
}

func (m *model) ids() (all []string) {
	for _, s := range m.seqs {
		of := m.of[s]
		text := fmt.Sprintf("b%d %s %s", s, m.subs[s], of[0])
		for _, e := range of[1:] {
			text += " " + e
		}
		all = append(all, fmt.Sprint(text, m.marks[s]))
	}
	return all
}

// BRIDGE-2: whatever byte of its file a crash leaves behind last, an inbox comes back as it was before or after the
// change that was under way, or between two of its batches; and what comes again is not added again.
func TestBRIDGE2CrashAtEveryWrite(t *testing.T) {
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		path := filepath.Join(dir, "inbox")
		o := Options{Batches: 1000, Bytes: 1 << 20, Events: 3}
		b, m := open(t, path, o), newModel()
		next := 0
		for range 40 {
			before, old := m.clone(), content(t, path)
			possible := []*model{before}
			sub := []string{"x", "y"}[random.IntN(2)]
			switch op := random.IntN(10); {
			case op < 5:
				var events []Event
				var names []string
				for range 1 + random.IntN(8) {
					id := fmt.Sprint("e", max(0, next-random.IntN(6)))
					if random.IntN(3) > 0 {
						next++
						id = fmt.Sprint("e", next)
					}
					events, names = append(events, event(id)), append(names, id)
				}
				latest := random.IntN(2) == 0
				possible = append(possible, m.add(sub, names, latest, o.Events)...)
				if _, err := b.Add(t.Context(), Batch{Subscription: sub}, events, latest); err != nil {
					t.Fatal(err)
				}
			case op < 8:
				var seqs []uint64
				for range 1 + random.IntN(3) {
					s := uint64(random.IntN(int(m.last) + 2))
					// What is written for several batches may be cut between them.
					if m.read(s) > 0 {
						possible = append(possible, m.clone())
					}
					seqs = append(seqs, s)
				}
				if _, err := b.Read(seqs...); err != nil {
					t.Fatal(err)
				}
			case len(m.seqs) > 0:
				s := m.seqs[random.IntN(len(m.seqs))]
				mark := m.marks[s]
				mark.Announced, mark.Failure = true, fmt.Sprint("f", random.IntN(3))
				m.marks[s] = mark
				if err := b.Mark(func(old *Mark) { *old = mark }, s); err != nil {
					t.Fatal(err)
				}
			}
			if got := ids(b); !slices.Equal(got, m.ids()) {
				t.Fatalf("seed %d: got  %q\nwant %q", seed, got, m.ids())
			}
			possible = append(possible, m.clone())
			now := content(t, path)
			if !bytes.HasPrefix(now, old) {
				old = nil // written anew, which happens at once
			}
			for _, cut := range []int{len(old), len(old) + random.IntN(len(now)-len(old)+1), len(now) - 1, len(now)} {
				if len(old) == 0 {
					cut = len(now)
				}
				if len(now) == 0 {
					continue
				}
				crashed := filepath.Join(dir, "crashed")
				if err := os.WriteFile(crashed, now[:max(cut, len(old))], 0o600); err != nil {
					t.Fatal(err)
				}
				c := open(t, crashed, o)
				got := ids(c)
				i := slices.IndexFunc(possible, func(p *model) bool { return slices.Equal(p.ids(), got) })
				if i < 0 {
					t.Fatalf("seed %d, cut at %d of %d to %d: %q\nbefore %q\nafter  %q", seed, cut, len(old), len(now), got, before.ids(), m.ids())
				}
				for id := range possible[i].seen {
					if n, err := c.Add(t.Context(), Batch{Subscription: id[:1]}, []Event{event(id[1:])}, false); n != 0 || err != nil {
						t.Fatalf("seed %d: %s is added again: %d, %v", seed, id, n, err)
					}
				}
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if b = open(t, path, o); !slices.Equal(ids(b), m.ids()) {
			t.Fatalf("seed %d: reopened: %q, want %q", seed, ids(b), m.ids())
		}
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return text
}

// BRIDGE-2: a full inbox makes Add wait until something is read; what was announced makes room by itself.
func TestBRIDGE2Full(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, filepath.Join(t.TempDir(), "inbox"), Options{Batches: 2, Bytes: 1 << 20, Events: 10})
		add := func(ctx context.Context, id string) error {
			_, err := b.Add(ctx, Batch{Subscription: "s"}, []Event{event(id)}, false)
			return err
		}
		for _, id := range []string{"1", "2"} {
			if err := add(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := add(ctx, "3"); !errors.Is(err, context.DeadlineExceeded) || b.Waiting() != 0 {
			t.Fatal(err, b.Waiting())
		}
		done := make(chan error)
		go func() { done <- add(t.Context(), "3") }()
		synctest.Wait()
		if b.Waiting() != 1 {
			t.Errorf("%d wait", b.Waiting())
		}
		if n, err := b.Read(1, 1, 7); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := b.Mark(func(m *Mark) { m.Announced = true }, 2); err != nil {
			t.Fatal(err)
		}
		if err := add(t.Context(), "4"); err != nil {
			t.Fatal(err)
		}
		if got := ids(b); len(got) != 2 || b.Waiting() != 0 {
			t.Errorf("%q, %d wait", got, b.Waiting())
		}
	})
}

// A batch is bounded by bytes too, but one that is larger than all of the inbox gets in when it is alone.
func TestFullOfBytes(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "inbox"), Options{Batches: 10, Bytes: 100, Events: 10})
	large := event("large")
	large.Data = json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), 200)) + `"`)
	if _, err := b.Add(t.Context(), Batch{}, []Event{large}, false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Add(ctx, Batch{}, []Event{event("small")}, false); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// BRIDGE-2: who adds or reads while nothing can be written gets the error, also of several at the same time, and the
// inbox is as before.
func TestBRIDGE2WriteFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b := open(t, filepath.Join(dir, "inbox"), Options{Batches: 100, Bytes: 1 << 20, Events: 1})
	if _, err := b.Add(t.Context(), Batch{Subscription: "s"}, []Event{event("1")}, false); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		sub := fmt.Sprint("s", i)
		wg.Go(func() {
			if n, err := b.Add(t.Context(), Batch{Subscription: sub}, []Event{event("2")}, false); n != 0 || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%d added in a directory that is gone: %v", n, err)
			}
		})
		wg.Go(func() {
			if err := b.Keep(sub, json.RawMessage("1")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("kept in a directory that is gone: %v", err)
			}
		})
	}
	wg.Wait()
	if n, err := b.Read(1); n != 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d read in a directory that is gone: %v", n, err)
	}
	if got := ids(b); !slices.Equal(got, []string{"b1 s 1 1{false false }"}) || len(b.Subscriptions()) != 0 {
		t.Errorf("%q, %v", got, b.Subscriptions())
	}
}

// What is remembered of read events is bounded, and what is no longer subscribed to is forgotten, but no sequence comes
// again.
func TestRemember(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox")
	o := Options{Batches: 10, Bytes: 1 << 20, Events: 2, Remember: 4}
	b := open(t, path, o)
	add := func(id string, want int) {
		t.Helper()
		if n, err := b.Add(t.Context(), Batch{Subscription: "s"}, []Event{event(id)}, false); n != want || err != nil {
			t.Fatalf("%s: %d, %v", id, n, err)
		}
	}
	for i := range uint64(10) {
		add(fmt.Sprint(i), 1)
		if n, err := b.Read(i + 1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, path, o)
	add("6", 0)
	add("9", 0)
	add("5", 1)
	if n, err := b.Read(11); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := errors.Join(b.Prune(func(string) bool { return false }), b.Close()); err != nil {
		t.Fatal(err)
	}
	b = open(t, path, o)
	add("9", 1)
	if got := ids(b); len(got) != 1 || got[0][:3] != "b12" || len(b.stones) != 0 {
		t.Errorf("%q, %d stones", got, len(b.stones))
	}
}

// BRIDGE-2: of a damaged inbox what can be read is shown, the rest is set aside, and the operator learns of it.
func TestBRIDGE2Damaged(t *testing.T) {
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	defer log.SetOutput(os.Stderr)
	defer slog.SetDefault(before)
	path := filepath.Join(t.TempDir(), "inbox")
	o := Options{Batches: 10, Bytes: 1 << 20, Events: 1}
	b := open(t, path, o)
	if _, err := b.Add(t.Context(), Batch{Subscription: "s"}, []Event{event("1"), event("2"), event("3")}, false); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Read(1); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := errors.Join(b.Keep("s1", json.RawMessage(`{"a":1}`)), b.Close()); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(content(t, path)), "\n")
	lost := strings.Replace(lines[2], `"2"`, `"x"`, 1)
	lines[2] = lost
	for _, line := range []string{
		`{"kind":"batch","key":"x","value":{}}`, `{"kind":"mark","key":"3","value":1}`, `{"kind":"read","key":"3","value":[]}`,
		`{"kind":"last","key":"0","value":"9"}`, `{"kind":"batches","key":"9","value":{}}`,
	} {
		lines = append(lines, line+"\n")
		lost += line + "\n"
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	b = open(t, path, o)
	if got := ids(b); !slices.Equal(got, []string{"b3 s 1 3{false false }"}) || len(b.Subscriptions()) != 1 {
		t.Errorf("%q, %v", got, b.Subscriptions())
	}
	if n, err := b.Add(t.Context(), Batch{Subscription: "s"}, []Event{event("1"), event("3"), event("4")}, false); n != 1 || err != nil {
		t.Errorf("%d added, %v", n, err)
	}
	if got := string(content(t, path+".damaged")); got != lost {
		t.Errorf("set aside: %q", got)
	}
	for _, said := range []string{path + ".damaged", `lines="3, 8, 9, 10, 11, 12"`, "an event may be missing", `batch \"` + sequenceKey(2) + `\"`} {
		if !strings.Contains(logged.String(), said) {
			t.Errorf("%s\nhas nothing of %s", &logged, said)
		}
	}
	for text, want := range map[string]string{"": "it is empty, so what it had is lost; remove it", "\x00\x00": "it has 2 bytes, all of them zero"} {
		other := filepath.Join(t.TempDir(), "inbox")
		if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), other, o); err == nil || !strings.Contains(err.Error(), "opening the inbox "+other+": "+want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Open(t.Context(), t.TempDir(), o); err == nil || !strings.Contains(err.Error(), "it is not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}

// What an agent has subscribed to is kept; a file of somebody else is refused and stays.
func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox")
	b := open(t, path, Options{})
	if err := errors.Join(b.Keep("s1", json.RawMessage(`{"a":1}`)), b.Keep("s2", json.RawMessage(`2`)), b.Drop("s2"), b.Close()); err != nil {
		t.Fatal(err)
	}
	if got := open(t, path, Options{}).Subscriptions(); len(got) != 1 || string(got["s1"]) != `{"a":1}` {
		t.Errorf("%s", got)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("my notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), other, Options{}); err == nil || string(content(t, other)) != "my notes\n" {
		t.Error(err)
	}
	// Nothing was released before the version 1 that has checksums.
	for _, header := range []string{`{"version":1}`, `{"format":"mcpe-gen inbox","version":1}`} {
		unreleased := header + "\n{\"kind\":\"last\",\"key\":\"\",\"value\":3}\n"
		if err := os.WriteFile(other, []byte(unreleased), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), other, Options{})
		if err == nil || !strings.Contains(err.Error(), other+": it was made by an unreleased build of mcpe-gen (version 1); use a new file") || string(content(t, other)) != unreleased {
			t.Error(err)
		}
	}
}
