package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// OCC-5: the transaction looks for ids, so that members of one group find each other, even if the group fails because
// of one of them and each is retried.
func TestOnceInOneGroup(t *testing.T) {
	for _, bad := range []bool{false, true} {
		s := fresh(t)
		l := openLog(t, s, store.LogOptions{})
		appendAll(t, l, "first")
		pages, err := s.Pages()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.LimitPages(pages + 40); err != nil {
			t.Fatal(err)
		}
		release := s.Stall(t)
		var fresh [3]atomic.Int32
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				e := entry(fmt.Sprint("id", i%3))
				p, f, err := l.AppendOnce(t.Context(), e, 0)
				if err != nil || p < 2 || p > 4 {
					t.Errorf("AppendOnce = %d, %v, %v", p, f, err)
				}
				if f {
					fresh[i%3].Add(1)
				}
			})
			if bad && i == 4 {
				wg.Go(func() {
					big := entry("big")
					big.Data = json.RawMessage(`"` + strings.Repeat("x", 4<<20) + `"`)
					if _, f, err := l.AppendOnce(t.Context(), big, 0); !errors.Is(err, sqlite.ErrFull) || f {
						t.Errorf("the bad one: %v, %v", f, err)
					}
				})
			}
		}
		release(30)
		wg.Wait()
		for i := range fresh {
			if n := fresh[i].Load(); n != 1 {
				t.Errorf("id%d was fresh %d times", i, n)
			}
		}
		if got := ids(t, l, 0); len(got) != 4 {
			t.Errorf("stored %v", got)
		}
	}
}

// Nothing is acknowledged or visible before its COMMIT has returned. If only the COMMIT refuses a write, the other
// members of its group succeed.
func TestCommitFails(t *testing.T) {
	s := fresh(t)
	var told atomic.Int32
	l := openLog(t, s, store.LogOptions{Appended: func(es []store.Entry) { told.Add(int32(len(es))) }})
	if err := s.CheckReferences(); err != nil {
		t.Fatal(err)
	}
	release := s.Stall(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if visible, err := s.FailCommit(); err == nil || visible {
				t.Errorf("a COMMIT that failed: %v, visible %v", err, visible)
			}
		})
		wg.Go(func() { appendAll(t, l, "good") })
	}
	release(6)
	wg.Wait()
	if got := ids(t, l, 0); len(got) != 3 || told.Load() != 3 {
		t.Errorf("stored %v, told of %d", got, told.Load())
	}
}

// OCC-5: a result found in a failed transaction does not count.
func TestOnceAfterFailedCommit(t *testing.T) {
	s := fresh(t)
	l := openLog(t, s, store.LogOptions{})
	if err := s.CheckReferences(); err != nil {
		t.Fatal(err)
	}
	release := s.Stall(t)
	var wg sync.WaitGroup
	wg.Go(func() { s.FailCommit() })
	s.AwaitQueued(1)
	wg.Go(func() {
		if p, f, err := l.AppendOnce(t.Context(), entry("unstored"), 0); p != 1 || !f || err != nil {
			t.Errorf("AppendOnce = %d, %v, %v", p, f, err)
		}
	})
	release(2)
	wg.Wait()
	if got := ids(t, l, 0); len(got) != 1 {
		t.Errorf("stored %v", got)
	}
}

// OCC-5: an entry that an earlier member of the group has evicted does not count.
func TestOnceEvictedInOneGroup(t *testing.T) {
	s := fresh(t)
	l := openLog(t, s, store.LogOptions{MaxCount: 2})
	release := s.Stall(t)
	var wg sync.WaitGroup
	for i, id := range []string{"a", "b", "a", "c", "a", "c"} {
		wg.Go(func() {
			p, f, err := l.AppendOnce(t.Context(), entry(id), 0)
			if want := []store.Position{1, 2, 1, 3, 4, 3}[i]; p != want || f != (i != 2 && i != 5) || err != nil {
				t.Errorf("append %d: %d, %v, %v; want %d", i, p, f, err, want)
			}
		})
		s.AwaitQueued(i + 1)
	}
	release(6)
	wg.Wait()
}

// SRV-4: a COMMIT waits for the disk unless the option says otherwise.
func TestSynchronous(t *testing.T) {
	for o, want := range map[sqlite.Synchronous]string{sqlite.Full: "2", sqlite.Normal: "1"} {
		s := open(t, filepath.Join(t.TempDir(), "events.db"), sqlite.Options{Synchronous: o})
		if got, err := s.Pragma("synchronous"); got != want || err != nil {
			t.Errorf("synchronous is %s, %v; want %s", got, err, want)
		}
		if got, err := s.Pragma("journal_mode"); got != "wal" || err != nil {
			t.Errorf("journal_mode is %s, %v", got, err)
		}
	}
}

// OCC-5: finding an id costs the same in a long log as in a short one, because of an index.
func TestOnceUsesIndex(t *testing.T) {
	plan, err := fresh(t).Plan(`SELECT position, data, sum FROM entries WHERE log = 1 AND event_id = 'a' AND audience = x'' AND position > 3
		ORDER BY position DESC LIMIT 1`)
	if err != nil || len(plan) != 1 || !strings.HasPrefix(plan[0], "SEARCH entries USING INDEX entries_id (log=? AND event_id=? AND audience=? AND position>?)") {
		t.Errorf("plan %q, %v", plan, err)
	}
}

const childEnv = "MCPE_SQLITE_CHILD"

// TestChildAppends is the child of TestKilledBetweenWriteAndAcknowledge: it appends for ever and prints each acknowledged
// entry. Half of its goroutines append ids of their own, which have a dot, the others append the same ids once.
func TestChildAppends(t *testing.T) {
	path := os.Getenv(childEnv)
	if path == "" {
		return // only meant to run as a child
	}
	l := openLog(t, open(t, path, sqlite.Options{}), store.LogOptions{})
	var appends sync.WaitGroup
	forEver := func(add func(i int) (id string, err error)) {
		appends.Go(func() {
			for i := 0; ; i++ {
				id, err := add(i)
				if err != nil {
					os.Exit(3)
				}
				fmt.Printf("ack %s\n", id)
			}
		})
	}
	for w := range 4 {
		forEver(func(i int) (string, error) {
			id := fmt.Sprint(os.Getpid(), ".", w, ".", i)
			_, err := l.Append(context.Background(), entry(id))
			return id, err
		})
		forEver(func(i int) (string, error) {
			_, _, err := l.AppendOnce(context.Background(), entry(strconv.Itoa(i)), 0)
			return strconv.Itoa(i), err
		})
	}
	appends.Wait()
}

// SRV-4, OCC-5: entries that a killed process had acknowledged exist after the restart, without holes or duplicates. An
// author that emits after a crash, without knowing the earlier result, duplicates nothing and loses nothing.
func TestKilledBetweenWriteAndAcknowledge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	acknowledged := map[string]bool{}
	for life := range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChildAppends$")
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		killAfter(t, cmd, 200*(life+1), func(line string) bool {
			id, ok := strings.CutPrefix(line, "ack ")
			if ok {
				acknowledged[id] = true
			}
			return ok
		})
	}
	stored, once := map[string]int{}, 0
	for _, id := range ids(t, openLog(t, open(t, path, sqlite.Options{}), store.LogOptions{}), 0) {
		stored[id]++
		if strings.Contains(id, ".") {
			continue
		}
		if id != strconv.Itoa(once) {
			t.Fatalf("%s was appended once where %d was expected", id, once)
		}
		once++
	}
	for id := range acknowledged {
		if stored[id] != 1 {
			t.Errorf("%s was acknowledged and is stored %d times", id, stored[id])
		}
	}
	if len(acknowledged) < 450 || once < 50 {
		t.Errorf("only %d entries were acknowledged, and %d were appended once", len(acknowledged), once)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, once := range []bool{false, true} {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("once=%v/writers=%d", once, writers), func(b *testing.B) {
				s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "events.db"), sqlite.Options{Synchronous: sqlite.Normal})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				l, err := s.OpenLog(b.Context(), "log", store.LogOptions{MaxCount: 10_000})
				if err != nil {
					b.Fatal(err)
				}
				var n atomic.Int64
				var wg sync.WaitGroup
				b.ResetTimer()
				for range writers {
					wg.Go(func() {
						for {
							i := n.Add(1)
							if i > int64(b.N) {
								return
							}
							e := entry(fmt.Sprintf("019aa5b0-0000-7000-8000-%012d", i))
							var err error
							if once {
								_, _, err = l.AppendOnce(context.Background(), e, 0)
							} else {
								_, err = l.Append(context.Background(), e)
							}
							if err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
