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
	// pageSize is the number of events that are read from the log at a time.
	pageSize = 256
	// recentIDs is the number of recent events that are checked for duplicates. After a crash, the only duplicate is
	// the event that was not committed. The rest is for upstreams that repeat more events.
	recentIDs = 1024
	// gapTarget is the only target of an entry that represents a gap. No subscription has it.
	gapTarget = "gap"
)

// An eventLog stores the events of one type in the order of arrival, including gaps.
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

// append stores an event unless it is already stored.
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

// appendGap records that events may be missing at this point.
func (l *eventLog) appendGap(ctx context.Context) error {
	_, err := l.log.Append(ctx, store.Entry{EventID: gapTarget, Timestamp: events.NewTime(time.Now().UTC()), Data: json.RawMessage(`{}`), Targets: []string{gapTarget}})
	if err != nil {
		return fmt.Errorf("store a gap: %w", err)
	}
	return nil
}

// cursor returns the cursor for a position. Its epoch identifies the incarnation of the log. Its proof detects a
// different entry at the same position, which was written after an older copy of the file was restored.
func (l *eventLog) cursor(ctx context.Context, p store.Position) (string, error) {
	proof, err := l.log.Proof(ctx, p)
	return fmt.Sprintf("%x.%d.%x", l.log.Epoch(), p, proof), err
}

// position returns the position of a cursor, or false if the cursor does not match the log.
func (l *eventLog) position(ctx context.Context, cursor string, head store.Position) (p store.Position, ok bool, err error) {
	var epoch uint64
	var proof uint32
	n, _ := fmt.Sscanf(cursor, "%x.%d.%x", &epoch, &p, &proof) // older cursors lack the proof
	if n < 2 || epoch != l.log.Epoch() || p > head {
		return 0, false, nil
	}
	known, err := l.log.Proof(ctx, p)
	return p, proof == 0 || known == 0 || proof == known, err
}

// page returns the events after the cursor. For a gap or an unknown cursor, it returns a separate page without events,
// so that a client that does not read a whole page at once sees the gap only once.
func (l *eventLog) page(ctx context.Context, cursor string) (page events.Page[json.RawMessage], err error) {
	oldest, head, err := l.log.Bounds(ctx)
	if err != nil {
		return page, err
	}
	at := func(p store.Position, truncated bool) (events.Page[json.RawMessage], error) {
		text, err := l.cursor(ctx, p)
		return events.Page[json.RawMessage]{Cursor: text, Truncated: truncated, HasMore: truncated && p < head}, err
	}
	if cursor == "" {
		return at(head, false)
	}
	after, ok, err := l.position(ctx, cursor, head)
	switch {
	case err != nil:
		return page, err
	case !ok:
		return at(oldest-1, true)
	}
	b, err := l.log.Read(ctx, after, pageSize)
	if err != nil {
		return page, err
	}
	if b.Gap {
		return at(b.Oldest-1, true)
	}
	for _, e := range b.Entries {
		if e.Targets != nil {
			if len(page.Items) == 0 {
				return at(e.Position, true)
			}
			break
		}
		page.Items = append(page.Items, events.Item[json.RawMessage]{ID: e.EventID, TimestampText: e.Timestamp.String(), Data: e.Data})
		after = e.Position
	}
	page.HasMore = after < b.Head
	page.Cursor, err = l.cursor(ctx, after)
	return page, err
}
