package client

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// misplaced says why an occurrence cannot be one of this subscription's, nil when it can.
func (s *subscription) misplaced(o *wire.Occurrence) error {
	if o.Name != "" && o.Name != s.name {
		return fmt.Errorf("the subscription to %s received an occurrence of another event type", s.name)
	}
	if n := len(o.EventID); n > wire.MaxEventID {
		return fmt.Errorf("/eventId has %d bytes, more than %d", n, wire.MaxEventID)
	}
	return nil
}

// report hands over, in place of an occurrence, what is wrong with it.
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

// gap hands over that occurrences may be missing before the ones to come.
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

// truncated hands over a gap before the cursor that came with it, unless the type has no replay: then the
// server had nothing to replay from the start (CLI-7a). A type that had cursors before and has none now
// has lost what was after the last of them; that is told once, and the cursor given up.
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

// maxCursor bounds what a server can make the client keep and send back, in bytes.
const maxCursor = 64 << 10

func checkCursor(cursor *string) error {
	if cursor != nil && len(*cursor) > maxCursor {
		return fmt.Errorf("the cursor has %d bytes, more than %d", len(*cursor), maxCursor)
	}
	return nil
}

// usable is cursor, or nil when it is too long to be kept; the one before stays then.
func (s *subscription) usable(cursor *string) *string {
	if err := checkCursor(cursor); err != nil {
		s.log.Warn("a cursor is ignored", "err", err)
		s.failed(err)
		return nil
	}
	return cursor
}
