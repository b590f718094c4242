package memlog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// held returns how many entries, retained or not, are in memory, and whether there is nothing else of them.
func (l *Log) held() (entries int, clean bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries), l.expiry == nil && (l.ids == nil || l.ids.young == nil)
}

// Entries that are too old leave the memory although nobody appends or reads any more.
func TestExpiredLeaveTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(store.LogOptions{MaxAge: time.Hour})
		for i := range 100 {
			once(l, store.Entry{EventID: string(rune('a' + i))})
			time.Sleep(time.Second)
		}
		time.Sleep(30 * time.Minute)
		l.Append(engine.Append{Entry: store.Entry{EventID: "younger"}})
		time.Sleep(36 * time.Minute)
		synctest.Wait()
		if n, _ := l.held(); n != 1 {
			t.Errorf("%d entries are held after 66 minutes", n)
		}
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if n, clean := l.held(); n != 0 || !clean {
			t.Errorf("%d entries are held after all expired; neither timer nor ids: %v", n, clean)
		}
		// A bound that is set later applies to entries that exist; Close ends the timer.
		b := New(store.LogOptions{})
		b.Append(engine.Append{Entry: store.Entry{EventID: "x"}})
		time.Sleep(time.Minute)
		b.Configure(nil, store.LogOptions{MaxAge: 2 * time.Minute})
		if oldest, _ := b.Bounds(); oldest != 1 {
			t.Error("an entry that is a minute old counts as older than two")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n, clean := b.held(); n != 0 || !clean {
			t.Error("a bound that came later is not kept")
		}
		b.Append(engine.Append{Entry: store.Entry{EventID: "y"}})
		b.Close()
		if b.expiry.Stop() {
			t.Error("the timer goes on after Close")
		}
	})
}
