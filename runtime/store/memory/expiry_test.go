package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// held returns the number of entries that the log keeps from the garbage collector.
func (l *Log) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Expired entries are freed even if nobody appends or reads any more.
func TestExpiredLeaveTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		opened, err := s.OpenLog(t.Context(), "a", store.LogOptions{MaxAge: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		l := opened.(*Log)
		for i := range 100 {
			l.AppendOnce(t.Context(), store.Entry{EventID: string(rune('a' + i))}, 0)
			time.Sleep(time.Second)
		}
		time.Sleep(30 * time.Minute)
		l.Append(t.Context(), store.Entry{EventID: "younger"})
		time.Sleep(36 * time.Minute)
		synctest.Wait()
		if n := l.held(); n != 1 {
			t.Errorf("%d entries are held after 66 minutes", n)
		}
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if n := l.held(); n != 0 || l.expiry != nil || l.ids.young != nil {
			t.Errorf("%d entries are held after all expired, timer %v, ids %v", n, l.expiry, l.ids)
		}
		// A later MaxAge applies to existing entries; Close ends the timer.
		b, err := s.OpenLog(t.Context(), "b", store.LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b.Append(t.Context(), store.Entry{EventID: "x"})
		time.Sleep(time.Minute)
		if _, err := s.OpenLog(t.Context(), "b", store.LogOptions{MaxAge: 2 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		if oldest, _, _ := b.Bounds(t.Context()); oldest != 1 {
			t.Error("an entry that is a minute old counts as older than two")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := b.(*Log).held(); n != 0 {
			t.Error("a bound that came later is not kept")
		}
		b.Append(t.Context(), store.Entry{EventID: "y"})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if b.(*Log).expiry.Stop() {
			t.Error("the timer goes on after Close")
		}
	})
}
