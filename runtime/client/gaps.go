package client

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// checkOccurrence returns an error if an occurrence cannot belong to this subscription.
func (s *subscription) checkOccurrence(o *wire.Occurrence) error {
	if o.Name != "" && o.Name != s.name {
		return fmt.Errorf("the subscription to %s received an occurrence of another event type", s.name)
	}
	if n := len(o.EventID); n > wire.MaxEventID {
		return fmt.Errorf("/eventId has %d bytes, more than %d", n, wire.MaxEventID)
	}
	return nil
}

// queueInvalid queues a PayloadError instead of an invalid occurrence.
func (s *subscription) queueInvalid(ctx context.Context, it item, err error) error {
	known, _ := toOccurrence(it.occurrence)
	known.ID = known.ID[:min(len(known.ID), wire.MaxEventID)]
	it.note, it.occurrence = &PayloadError{Occurrence: known, Err: err}, nil
	if err := s.inbox.put(ctx, it); err != nil {
		return err
	}
	s.recordQueued(it)
	return nil
}

// queueGap queues a GapError, because occurrences may be missing before the next one.
func (s *subscription) queueGap(ctx context.Context, cursor *string) error {
	return s.queueGapItem(ctx, cursor, 0)
}

func (s *subscription) queueGapItem(ctx context.Context, cursor *string, sequence uint64) error {
	g := &GapError{Event: s.name}
	if cursor != nil {
		g.Cursor = *cursor
	}
	it := item{gap: g, cursor: cursor, sequence: sequence}
	if err := s.inbox.put(ctx, it); err != nil {
		return err
	}
	s.mu.Lock()
	s.status.Gaps++
	s.mu.Unlock()
	s.recordQueued(it)
	return nil
}

// handleTruncation queues a gap after the server has reported truncation. It ignores the truncation of a type without
// replay, because the server never had events to replay (CLI-7a). If a type previously had cursors and now has none,
// the events after the last cursor are lost. handleTruncation then queues one gap and clears the cursor.
func (s *subscription) handleTruncation(ctx context.Context, cursor, from *string) error {
	if cursor == nil || *cursor == "" {
		s.mu.Lock()
		had := s.cursor != ""
		s.cursor = ""
		s.mu.Unlock()
		if !had {
			return nil
		}
	}
	return s.queueGap(ctx, from)
}

// maxCursor is the maximum length in bytes of a cursor that the client accepts.
const maxCursor = 64 << 10

func checkCursor(cursor *string) error {
	if cursor != nil && len(*cursor) > maxCursor {
		return fmt.Errorf("the cursor has %d bytes, more than %d", len(*cursor), maxCursor)
	}
	return nil
}

// usableCursor returns cursor, or nil if it is too long. In that case the subscription keeps its previous cursor.
func (s *subscription) usableCursor(cursor *string) *string {
	if err := checkCursor(cursor); err != nil {
		s.log.Warn("a cursor is ignored", "err", err)
		s.failed(err)
		return nil
	}
	return cursor
}
