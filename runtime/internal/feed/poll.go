package feed

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// A Poll serves one poll. It calls the check with the poll's cursor and does not keep state for the next poll. If the
// type has both sources, it then reads the type's log.
type Poll struct {
	reader
	from    wire.Cursor // position of emit before the last call to Next
	checked int         // number of occurrences of the last call to Next that the check found
	found   *step       // pending step; nil if the check must be called
	next    time.Duration
}

// OpenPoll opens a poll. The result truncated reports whether the poll was unable to start at its cursor. Without a
// cursor, the poll starts at the upstream's head, so it has no results to read.
func OpenPoll(ctx context.Context, at Seat, c *Check, a *topic.Arguments, start Start) (p *Poll, truncated bool, err error) {
	r, w, place, truncated, err := openReader(ctx, at, c, a, start)
	if err != nil {
		return nil, false, err
	}
	p = &Poll{reader: r}
	var s step
	if place == nil {
		s, err = p.fetch(ctx, checkpoint{})
		p.next, p.at, p.last = s.nextPoll, s.next, s.cursor
	} else {
		s, _, p.last, err = p.u.replayFrom(ctx, *place, w.MaxAge, p.fetch)
		p.found = &s
	}
	if err != nil {
		p.Close()
		return nil, false, err
	}
	return p, truncated, nil
}

// fetch calls the check for the poll's principal.
func (p *Poll) fetch(ctx context.Context, c checkpoint) (step, error) {
	return p.u.fetchFor(p.seat.Principal)(ctx, c)
}

// Replays reports whether the poll has a cursor and therefore has results to read.
func (p *Poll) Replays() bool { return p.found != nil }

// NextPoll returns the delay before the next call. It is the check's interval unless the upstream requested a delay.
func (p *Poll) NextPoll() time.Duration {
	if p.next > 0 {
		return p.next
	}
	return p.u.check.Interval
}

// Rebind switches to the check and arguments of another definition. It keeps the cursor and does not call the check.
func (p *Poll) Rebind(c *Check, a *topic.Arguments) {
	p.found = nil
	p.reader.Rebind(c, a)
}

// Next reads results up to the bound. It calls the check repeatedly while more pages are available. The bound's Scan
// applies to the check and to the log separately.
func (p *Poll) Next(ctx context.Context, into []topic.Outcome, b topic.Bound) (topic.Pulled, error) {
	got := topic.Pulled{Out: into}
	if p.emits {
		p.from = p.emit.Place()
	}
	left := b.Scan
	for {
		if p.found == nil {
			s, err := p.fetch(ctx, p.at)
			if err != nil && ctx.Err() == nil && len(got.Out) > len(into) {
				got.More = true // return the earlier occurrences; the next poll returns the error
				return got, nil
			}
			if err != nil {
				return got, err
			}
			p.found = &s
		}
		s := p.found
		p.found = nil
		got.Gap = got.Gap || s.truncated
		p.next = s.nextPoll
		p.setStep(s)
		scan := max(left, len(s.entries)) // a page of cheap entries is examined as a whole
		out, rest, err := p.readMatching(ctx, got.Out, topic.Bound{Outcomes: b.Outcomes, Bytes: b.Bytes, Scan: scan})
		got.Out, p.checked = out, len(out)
		if err != nil {
			return got, err
		}
		left -= scan - rest + topic.ReadChunk // an empty page also has a cost
		if len(p.backlog) > 0 || s.more && (len(out) == b.Outcomes || left <= 0) {
			got.More = true
			return got, nil
		}
		if s.more {
			continue
		}
		if p.emits {
			gap := got.Gap
			got, err = p.emit.Fill(ctx, out, b)
			got.Gap = got.Gap || gap
		}
		return got, err
	}
}

// CursorAfter returns the JSON encoding of the cursor after the first n occurrences that the last call to Next
// returned. The number n must be at least 1.
func (p *Poll) CursorAfter(out []topic.Outcome, n int) []byte {
	e := out[n-1].Entry()
	switch {
	case !p.emits:
		return frame.AppendString(nil, e.Cursor)
	case n <= p.checked:
		return encodeCombinedCursor(p.from, e.Cursor)
	default:
		return encodeCombinedCursor(p.emit.PlaceAfter(e), p.last)
	}
}
