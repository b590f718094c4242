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

func (l *lateLog) open(appended func([]store.Entry)) *lateLog {
	l.appended = appended
	l.EventLog = memory.NewLog(store.LogOptions{Appended: func(all []store.Entry) { l.late = append(l.late, all...) }})
	return l
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
		return l.open(appended), nil
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

// CUR-2: a request without a usable cursor begins at the latest entry of a shared log, which this process might not have
// received. Another one, and any to an unshared log, begins no later than at the head when it arrived.
func TestCUR2Now(t *testing.T) {
	cursor, since := "c", Since{Age: time.Hour}
	for _, tt := range []struct {
		name             string
		shared, noReplay bool
		replay           Replay
		want             store.Position
	}{
		{"without a cursor", true, false, Replay{}, 3},
		{"a cursor", true, false, Replay{Cursor: &cursor}, 0},
		{"a time", true, false, Replay{Since: &since}, 0},
		{"a cursor of a type without replay", true, true, Replay{Cursor: &cursor}, 3},
		{"a time of a type without replay", true, true, Replay{Since: &since}, 3},
		{"an unshared log", false, false, Replay{}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, typ := &lateLog{}, newType(t)
			typ.NoReplay = tt.noReplay
			topic, err := Open(typ, Options{Slots: 64, Open: func(appended func([]store.Entry)) (store.EventLog, error) {
				if !tt.shared {
					return memory.NewLog(store.LogOptions{Appended: appended}), nil
				}
				return l.open(appended), nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			arrived := topic.Head()
			for _, id := range []string{"1", "2", "3"} {
				add(t, topic, incident{ID: id})
			}
			head, err := topic.Now(t.Context(), typ, arrived, tt.replay)
			if err != nil || head != tt.want {
				t.Errorf("now is %d, %v, want %d", head, err, tt.want)
			}
			if tt.replay != (Replay{}) && !tt.noReplay {
				return
			}
			if at, err := topic.Start(t.Context(), typ, head, tt.replay); err != nil || at.Position != tt.want {
				t.Errorf("it begins at %d, %v, want %d", at.Position, err, tt.want)
			}
		})
	}
}
