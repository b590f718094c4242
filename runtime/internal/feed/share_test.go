package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// hang makes each call of the check take the time d, or until its context is done.
func (s *service) hang(d time.Duration) { s.set(func() { s.delay = d }) }

// cursor returns the cursor after the first n items.
func (s *service) cursor(n int) string {
	return s.feeds.upstream(s.check, s.args(), "").cursorOf(checkpoint{upstream: fmt.Sprint(n)})
}

// forget removes the results that the feed keeps.
func (st *stream) forget() {
	st.f.feeds.mu.Lock()
	defer st.f.feeds.mu.Unlock()
	clear(st.f.results)
}

// runs returns the number of calls that hang.
func (s *service) runs() int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hanging
}

// PUSH-4, SRV-5: a pull never waits for the check, neither at the head nor behind it nor under a new definition.
func TestPUSH4PullDoesNotWait(t *testing.T) {
	for _, emits := range []bool{false, true} {
		t.Run(fmt.Sprint("emits=", emits), func(t *testing.T) {
			asking(t, func(t *testing.T, s *service) {
				const long = 90 * time.Second
				got := map[*stream][]string{}
				pull := func(st *stream) {
					t.Helper()
					began := time.Now()
					p, err := st.Next(t.Context(), nil, topic.Batch(topic.PullBatch))
					if err != nil {
						t.Fatal(err)
					}
					if d := time.Since(began); d != 0 {
						t.Errorf("a pull took %s", d)
					}
					for _, o := range p.Out {
						got[st] = append(got[st], o.Entry().EventID)
					}
				}
				read := func(st *stream, within time.Duration) {
					got[st] = append(got[st], strings.Fields(st.read(within))...)
				}
				redefine := func() {
					s.check = &Check{Ask: s.ask, Interval: interval, Shared: true, Emits: emits}
					s.hang(long)
				}
				redefine()
				s.feeds.Adopt(s.check)()
				first := s.open("", false)
				at := first.cursor()
				s.happen("1", "2", "3")
				read(first, 4*long)
				behind := s.openAt(Start{Replay: replay(at), Later: true}, false)
				pull(behind)
				s.happen("4")
				time.Sleep(2 * interval)
				pull(first)
				redefine()
				stop := s.feeds.Adopt(s.check)
				began := time.Now()
				for _, st := range []*stream{first, behind} {
					if st.Rebind(s.check, s.args()); time.Since(began) != 0 {
						t.Errorf("a rebind took %s", time.Since(began))
					}
					pull(st)
				}
				stop()
				for _, st := range []*stream{behind, first} {
					read(st, 6*long)
					if ids := strings.Join(got[st], " "); ids != "1 2 3 4" || st.gaps != 0 {
						t.Errorf("got %q with %d gaps", ids, st.gaps)
					}
				}
				first.Close()
				behind.Close()
			})
		})
	}
}

// SRV-5: subscriptions that begin at once at the same position share the calls, and one that gives up does not cancel a
// call that others wait for.
func TestSRV5ManyBegin(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		s.happen("1", "2", "3")
		first := s.open("", false)
		at := first.cursor()
		first.Close()
		s.happen("4", "5", "6")
		s.hang(time.Second)
		for name, cursor := range map[string]string{"at the head": "", "behind it": at} {
			s.questions()
			impatient, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			all := make([]*Source, 50)
			var opening sync.WaitGroup
			for i := range all {
				opening.Go(func() {
					ctx := t.Context()
					if i == 0 {
						ctx = impatient
					}
					src, truncated, err := Open(ctx, Seat{Feeds: s.feeds, ID: "sub", Bell: topic.NewWake()}, s.check, s.args(), Start{Replay: replay(cursor)})
					if truncated || i == 0 != errors.Is(err, context.DeadlineExceeded) || i > 0 && err != nil {
						t.Errorf("%s, %d: truncated %v, %v", name, i, truncated, err)
					}
					all[i] = src
				})
			}
			opening.Wait()
			if n := s.questions(); n != 1 {
				t.Errorf("%s the check was called %d times", name, n)
			}
			for _, src := range all[1:] {
				src.Close()
			}
		}
	})
}

// SRV-5: a subscription that waits at the head is not woken by calls that find nothing.
func TestSRV5IdleSleeps(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		st, twin := s.open("", false), s.open("", false)
		st.read(interval / 4)
		twin.read(interval / 4)
		same := s.open(st.cursor(), false)
		same.Close()
		if n := s.questions(); n != 1 {
			t.Errorf("%d calls to begin", n)
		}
		time.Sleep(10 * interval)
		if n := s.questions(); n != 10 || len(st.wake)+len(twin.wake) != 0 {
			t.Errorf("%d calls woke them %d times", n, len(st.wake)+len(twin.wake))
		}
		twin.Close()
		s.happen("1")
		if got := st.read(interval); got != "1" {
			t.Errorf("then %q", got)
		}
		st.Close()
	})
}

// SRV-5: a call ends when nobody waits for it any more, and when the type changes. Who begins at that moment calls the
// check itself.
func TestCallsEnd(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		s.hang(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, _, err := Open(ctx, Seat{Feeds: s.feeds, Bell: topic.NewWake()}, s.check, s.args(), Start{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		s.calls.Wait()
		if d := time.Since(began); d != time.Second {
			t.Errorf("the call ended after %s", d)
		}
		opened := make(chan *Source)
		go func() {
			src, _, err := Open(t.Context(), Seat{Feeds: s.feeds, Bell: topic.NewWake()}, s.check, s.args(), Start{})
			if err != nil {
				t.Error(err)
			}
			opened <- src
		}()
		synctest.Wait()
		began = time.Now()
		s.feeds.Adopt(&Check{Ask: s.ask, Interval: interval})()
		src := <-opened
		if d := time.Since(began); d != time.Hour {
			t.Errorf("it began after %s", d)
		}
		p, err := src.Next(t.Context(), nil, topic.Batch(topic.PullBatch)) // before it is rebound
		if err != nil || p.More || len(p.Out)+len(p.Failed) != 0 {
			t.Errorf("%+v, %v", p, err)
		}
		src.Close()
	})
}

// SRV-5, EVOL-1: a call that a subscription waits for ends when the subscription closes, although others use the feed. A
// change of the type is not a failure of the check.
func TestPendingCallsEnd(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		first := s.open("", false)
		at := first.cursor()
		s.happen("1")
		first.read(2 * interval)
		s.hang(time.Hour)
		behind := s.openAt(Start{Replay: replay(at), Later: true}, false)
		behind.forget()
		if _, err := behind.Next(t.Context(), nil, topic.Batch(topic.PullBatch)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * interval) // first waits too
		if n := s.runs(); n != 2 {
			t.Errorf("%d calls are running", n)
		}
		behind.Close()
		if n := s.runs(); n != 1 {
			t.Errorf("%d calls are running after one subscription closed", n)
		}
		s.feeds.Adopt(&Check{Ask: s.ask, Interval: interval})()
		synctest.Wait()
		if p, err := first.Next(t.Context(), nil, topic.Batch(topic.PullBatch)); err != nil || p.More || len(p.Failed) != 0 || s.runs() != 0 {
			t.Errorf("%+v, %v, and %d calls are running", p, err, s.runs())
		}
		first.Close()
	})
}

// EVOL-1: who begins where a failed call waits for its retry does not wait when the type changes at that moment.
func TestRetryEndsWithTheFeed(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		s.happen("1")
		s.set(func() { s.fail = errors.New("down") })
		st := s.openAt(Start{Replay: replay(s.cursor(0)), Later: true}, false)
		st.read(interval / 4)
		s.set(func() { s.fail = nil })
		s.feeds.Adopt(&Check{Ask: s.ask, Interval: interval})()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if found, err := st.f.await(ctx, checkpoint{upstream: "0"}, ""); err != nil || len(found.entries) != 1 {
			t.Errorf("%+v, %v", found, err)
		}
		st.Close()
	})
}

// CUR-2: who begins without a cursor begins now, although the only other subscription has not been read for long.
func TestCUR2StaleHead(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		unread := s.open("", false)
		s.happen("1")
		time.Sleep(5 * interval)
		fresh := s.open("", false)
		if got := fresh.read(2 * interval); got != "" {
			t.Errorf("what came before it began: %q", got)
		}
		if got := unread.read(2 * interval); got != "1" {
			t.Errorf("unread: %q", got)
		}
		fresh.Close()
		unread.Close()
	})
}

// CUR-6: a gap that the upstream reported holds for an interval. Who begins later is told what holds then.
func TestCUR6GapExpires(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		s.happen("1", "2")
		first := s.open("", false)
		at := s.cursor(0)
		s.set(func() { s.kept = 1 })
		for _, wantTruncated := range []bool{true, true, false} {
			if !wantTruncated {
				time.Sleep(2 * interval)
				s.set(func() { s.kept = 0 })
			}
			st := s.open(at, wantTruncated)
			if got := st.read(interval / 4); got != "2" && wantTruncated || got != "1 2" && !wantTruncated {
				t.Errorf("truncated %v: %q", wantTruncated, got)
			}
			st.Close()
		}
		first.Close()
	})
}

// SRV-5: a feed keeps a bounded number of results, and of bytes in them. Results that found nothing expire.
func TestKeptResults(t *testing.T) {
	for name, size := range map[string]int{"many": 10, "large": maxResultBytes / 4} {
		t.Run(name, func(t *testing.T) {
			asking(t, func(t *testing.T, s *service) {
				s.page = 1
				st := s.open("", false)
				for range 3 * maxResults {
					s.happen("")
					s.set(func() { s.items[len(s.items)-1].Data = json.RawMessage(`{"x":"` + strings.Repeat("x", size) + `"}`) })
					if got := st.read(2 * interval); got == "" {
						t.Fatal("nothing came")
					}
				}
				synctest.Wait()
				bytes, count := 0, 0
				for _, c := range st.f.results {
					bytes, count = bytes+c.size, count+1
				}
				if count > maxResults || bytes > maxResultBytes || name == "many" && count < maxResults || name == "large" && bytes < maxResultBytes/2 {
					t.Errorf("it keeps %d results of %d bytes", count, bytes)
				}
				st.read(10 * interval)
				synctest.Wait()
				idle := 0
				for _, c := range st.f.results {
					if len(c.step.entries) == 0 {
						idle++
					}
				}
				if idle > 1 {
					t.Errorf("it keeps %d results without entries", idle)
				}
				st.Close()
			})
		})
	}
}

// CUR-2: who begins without a cursor begins at the latest head, even if an earlier call returns after a later one.
func TestCUR2LatestHead(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		st := s.open("", false)
		at := st.cursor()
		s.happen("1")
		slow := make(chan struct{})
		s.check.Ask = func(ctx context.Context, a any, cursor string) (Page, error) {
			p, err := s.ask(ctx, a, cursor)
			if cursor == "0" {
				<-slow // it has seen the head of before
			}
			return p, err
		}
		behind := s.openAt(Start{Replay: replay(at), Later: true}, false)
		if _, err := behind.Next(t.Context(), nil, topic.Batch(topic.PullBatch)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(interval)
		synctest.Wait()
		s.happen("2")
		ahead := s.openAt(Start{Replay: replay(s.cursor(1))}, false)
		if got := ahead.read(interval / 2); got != "2" {
			t.Errorf("ahead: %q", got)
		}
		close(slow)
		if got := behind.read(interval / 2); got != "1" && got != "1 2" {
			t.Errorf("behind: %q", got)
		}
		fresh := s.open("", false)
		if got := fresh.read(interval / 2); got != "" {
			t.Errorf("what came before it began: %q", got)
		}
		for _, st := range []*stream{st, behind, ahead, fresh} {
			st.Close()
		}
	})
}

// PUSH-5: each subscription is told of a failed call once, also one that begins while the check fails, and the check is
// called as often as for one subscription.
func TestPUSH5ToldOnce(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		a, b := s.open("", false), s.open("", false)
		at := a.cursor()
		s.set(func() { s.fail = errors.New("down") })
		s.questions()
		for _, st := range []*stream{a, b} {
			st.read(interval + interval/2)
		}
		calls := s.questions()
		if len(a.failed) == 0 || len(a.failed) > calls || len(b.failed) == 0 || len(b.failed) > calls {
			t.Errorf("told of %d and %d failures of %d", len(a.failed), len(b.failed), calls)
		}
		late := s.openAt(Start{Replay: replay(at)}, false)
		late.read(time.Second)
		if len(late.failed) > 1 {
			t.Errorf("the one that began later was told of %d failures", len(late.failed))
		}
		s.happen("1")
		s.set(func() { s.fail = nil })
		for name, st := range map[string]*stream{"a": a, "b": b, "late": late} {
			if got := st.read(10 * interval); got != "1" || st.gaps != 0 {
				t.Errorf("%s: %q", name, got)
			}
			st.Close()
		}
	})
}

// PUSH-5: failed calls at several positions at once are one failure, after which the delay is the shortest. A success
// resets it. Who begins meanwhile does not wait for it.
func TestPUSH5Backoff(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		const short = 5 * time.Second
		s.page = 1
		s.check = &Check{Ask: s.ask, Interval: short, Shared: true}
		s.hang(time.Second)
		s.feeds.Adopt(s.check)()
		s.set(func() { s.fail = errors.New("down") })
		first := s.openAt(Start{Replay: replay(s.cursor(0)), Later: true}, false)
		first.read(2 * time.Second)
		s.set(func() { s.fail = nil })
		same := s.open(s.cursor(0), false) // which finds nothing
		same.Close()
		s.happen("0", "1", "2", "3", "4", "5")
		for range 3 {
			s.set(func() { s.fail = errors.New("down") })
			first.forget()
			var all []*stream
			for i := range 5 {
				st := s.openAt(Start{Replay: replay(s.cursor(i + 1)), Later: true}, false)
				if _, err := st.Next(t.Context(), nil, topic.Batch(topic.PullBatch)); err != nil {
					t.Fatal(err)
				}
				all = append(all, st)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			for i, st := range all {
				if st.read(0); len(st.failed) != 1 {
					t.Errorf("%d was told of %d failures", i, len(st.failed))
				}
			}
			began := time.Now()
			impatient := s.openAt(Start{Replay: replay(s.cursor(1))}, false)
			if d := time.Since(began); d != time.Second {
				t.Errorf("one that began while the check failed waited %s", d)
			}
			impatient.Close()
			s.set(func() { s.fail = nil })
			for i, st := range all {
				if got, want := st.read(short+10*time.Second), strings.Join([]string{"1", "2", "3", "4", "5"}[i:], " "); got != want {
					t.Errorf("%d got %q, want %q within an interval", i, got, want)
				}
				st.Close()
			}
		}
		first.Close()
	})
}
