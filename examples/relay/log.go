package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// pageSize is how many events a client's request gets at once from the log.
	pageSize = 256
	// recentIDs is how many of the last events are looked at for one that comes again. After a
	// crash that is the one event whose commit was missing; the rest is for generous upstreams.
	recentIDs = 1024
	// gapTarget marks the entry that stands for a gap: its only target, which nothing has.
	gapTarget = "gap"
)

// An eventLog keeps the events of one type in the order of their arrival, gaps included.
type eventLog struct {
	log store.EventLog

	mu     sync.Mutex
	recent map[string]bool
	order  []string
}

func openLog(ctx context.Context, db store.Store, name string, keep time.Duration) (*eventLog, error) {
	log, err := db.OpenLog(ctx, name, store.LogOptions{MaxAge: keep})
	if err != nil {
		return nil, err
	}
	l := &eventLog{log: log, recent: map[string]bool{}}
	oldest, head, err := log.Bounds(ctx)
	if err != nil {
		return nil, err
	}
	after := oldest - 1
	if head > recentIDs {
		after = max(after, head-recentIDs)
	}
	for after < head {
		b, err := log.Read(ctx, after, pageSize)
		if err != nil {
			return nil, err
		}
		if len(b.Entries) == 0 {
			break
		}
		for _, e := range b.Entries {
			if e.Targets == nil {
				l.remember(e.EventID)
			}
			after = e.Position
		}
	}
	return l, nil
}

func (l *eventLog) remember(id string) {
	l.recent[id] = true
	if l.order = append(l.order, id); len(l.order) > recentIDs {
		delete(l.recent, l.order[0])
		l.order = l.order[1:]
	}
}

// append stores an event unless it is there already.
func (l *eventLog) append(ctx context.Context, e store.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.EventID != "" && l.recent[e.EventID] {
		return nil
	}
	if _, err := l.log.Append(ctx, e); err != nil {
		return fmt.Errorf("store event %s: %w", e.EventID, err)
	}
	l.remember(e.EventID)
	return nil
}

// gap stores that events may be missing here.
func (l *eventLog) gap(ctx context.Context) error {
	_, err := l.log.Append(ctx, store.Entry{EventID: gapTarget, Timestamp: events.NewTime(time.Now().UTC()), Data: json.RawMessage(`{}`), Targets: []string{gapTarget}})
	if err != nil {
		return fmt.Errorf("store a gap: %w", err)
	}
	return nil
}

// cursor is the text of a position; another life of the log has another epoch.
func (l *eventLog) cursor(p store.Position) string { return fmt.Sprintf("%x.%d", l.log.Epoch(), p) }

// page is what follows the cursor. A gap, or a cursor that means nothing any more, is a page of its
// own without events, so that a client that takes a page in parts is told once.
func (l *eventLog) page(ctx context.Context, cursor string) (events.Page[json.RawMessage], error) {
	oldest, head, err := l.log.Bounds(ctx)
	if err != nil {
		return events.Page[json.RawMessage]{}, err
	}
	at := func(p store.Position, truncated bool) events.Page[json.RawMessage] {
		return events.Page[json.RawMessage]{Cursor: l.cursor(p), Truncated: truncated, HasMore: truncated && p < head}
	}
	if cursor == "" {
		return at(head, false), nil
	}
	var epoch uint64
	var after store.Position
	if _, err := fmt.Sscanf(cursor, "%x.%d", &epoch, &after); err != nil || epoch != l.log.Epoch() || after > head {
		return at(oldest-1, true), nil
	}
	b, err := l.log.Read(ctx, after, pageSize)
	if err != nil {
		return events.Page[json.RawMessage]{}, err
	}
	if b.Gap {
		return at(b.Oldest-1, true), nil
	}
	page := at(after, false)
	for _, e := range b.Entries {
		if e.Targets != nil {
			if len(page.Items) == 0 {
				return at(e.Position, true), nil
			}
			break
		}
		page.Items = append(page.Items, events.Item[json.RawMessage]{ID: e.EventID, TimestampText: e.Timestamp.String(), Data: e.Data})
		after = e.Position
	}
	page.Cursor, page.HasMore = l.cursor(after), after < b.Head
	return page, nil
}
