package client

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// misplaced returns why an occurrence cannot belong to this subscription, or nil if it can.
func (s *subscription) misplaced(o *wire.Occurrence) error {
	if o.Name != "" && o.Name != s.name {
		return fmt.Errorf("the subscription to %s received an occurrence of another event type", s.name)
	}
	if n := len(o.EventID); n > wire.MaxEventID {
		return fmt.Errorf("/eventId has %d bytes, more than %d", n, wire.MaxEventID)
	}
	return nil
}

// report hands over a PayloadError in place of an invalid occurrence.
func (s *subscription) report(ctx context.Context, it item, err error) error {
	known, _ := occurrence(it.occurrence)
	known.ID = known.ID[:min(len(known.ID), wire.MaxEventID)]
	it.note, it.occurrence = &PayloadError{Occurrence: known, Err: err}, nil
	if err := s.inbox.put(ctx, it); err != nil {
		return err
	}
	s.passed(it)
	return nil
}

// gap hands over a GapError: occurrences may be missing before the next ones.
func (s *subscription) gap(ctx context.Context, cursor *string) error {
	return s.gapItem(ctx, cursor, 0)
}

func (s *subscription) gapItem(ctx context.Context, cursor *string, sequence uint64) error {
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
	s.passed(it)
	return nil
}

// truncated hands over a gap before the cursor that came with it, unless the type has no replay: then the server had
// nothing to replay from the start (CLI-7a). If a type had cursors earlier and has none now, the events after the last
// cursor are lost; truncated reports that once and drops the cursor.
func (s *subscription) truncated(ctx context.Context, cursor, from *string) error {
	if cursor == nil || *cursor == "" {
		s.mu.Lock()
		had := s.cursor != ""
		s.cursor = ""
		s.mu.Unlock()
		if !had {
			return nil
		}
	}
	return s.gap(ctx, from)
}

// maxCursor bounds the cursors that the client keeps and sends back, in bytes.
const maxCursor = 64 << 10

func checkCursor(cursor *string) error {
	if cursor != nil && len(*cursor) > maxCursor {
		return fmt.Errorf("the cursor has %d bytes, more than %d", len(*cursor), maxCursor)
	}
	return nil
}

// usable returns cursor, or nil if it is too long to keep; the subscription then keeps its previous cursor.
func (s *subscription) usable(cursor *string) *string {
	if err := checkCursor(cursor); err != nil {
		s.log.Warn("a cursor is ignored", "err", err)
		s.failed(err)
		return nil
	}
	return cursor
}
