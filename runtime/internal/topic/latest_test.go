package topic

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A lateLog has entries of other processes that this process has not received.
type lateLog struct {
	store.EventLog
	appended func([]store.Entry)
	late     []store.Entry
	told     store.Position
}

func (l *lateLog) receive(n int) {
	for _, e := range l.late[:n] {
		l.told = e.Position
		l.appended([]store.Entry{e})
	}
	l.late = l.late[n:]
}

// CatchUp receives one entry from another process before it looks at p.
func (l *lateLog) CatchUp(_ context.Context, p store.Position) (store.Position, error) {
	l.receive(1)
	if l.told < p {
		l.receive(len(l.late))
	}
	return l.told, nil
}

func (l *lateLog) Seen() time.Time { return time.Now() }

// CUR-2: the latest entry is that of a query, although another one arrives just before.
func TestCUR2LatestWhileEntriesArrive(t *testing.T) {
	l := &lateLog{}
	topic, err := Open(newType(t), Options{Slots: 64, Open: func(appended func([]store.Entry)) (store.EventLog, error) {
		l.appended = appended
		l.EventLog = memory.NewLog(store.LogOptions{Appended: func(all []store.Entry) { l.late = append(l.late, all...) }})
		return l, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2", "3"} {
		if _, err := l.Append(t.Context(), store.Entry{EventID: id, Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{"id":"1"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if head, err := topic.Latest(t.Context()); head != 3 || err != nil {
		t.Errorf("the latest entry is %d, %v", head, err)
	}
}
