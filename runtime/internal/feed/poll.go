package feed

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Poll serves one poll. It calls the check with the poll's cursor and does not keep state for the next poll. If the
// type has both sources, it then reads the type's log.
type Poll struct {
	stepWalk
	fetch   fetch
	emits   bool
	emit    topic.Reader // of the type's log, if emits
	from    wire.Cursor  // position of emit before the last Fill
	checked int          // number of occurrences of the last Fill that the check found
	found   *step        // pending step; nil if the check must be called
	next    time.Duration
	release func() // releases the use of the principal's checks
}

// Poll opens a poll. The result truncated reports whether the poll was unable to start at its cursor. Without a cursor,
// the poll starts at the upstream's head, so it has no results to read.
func (f *Feeds) Poll(ctx context.Context, at Seat, c *Check, a *topic.Arguments, start Start) (p *Poll, truncated bool, err error) {
	release, err := f.addReader(at.Principal, a, false)
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	u := f.upstream(c, a, at.Principal)
	p = &Poll{stepWalk: stepWalk{u: u, id: at.ID}, fetch: u.fetchFor(at.Principal), emits: c.Emits, release: release}
	w, place, truncated := p.u.resolveStart(start.Replay)
	if c.Emits {
		t := f.host.Topic()
		from, err := resolveCombined(ctx, t, a.Of, start.Head, w)
		if err != nil {
			return nil, false, err
		}
		truncated = truncated || from.Truncated
		p.emit = t.ReaderFrom(a, at.ID, at.Bell, from)
	}
	if place == nil {
		s, err := p.fetch(ctx, checkpoint{})
		if err != nil {
			return nil, false, err
		}
		p.next, p.last = s.nextPoll, s.cursor
		return p, truncated, nil
	}
	s, _, text, err := p.u.replayFrom(ctx, *place, w.MaxAge, p.fetch)
	if err != nil {
		return nil, false, err
	}
	p.last, p.found = text, &s
	return p, truncated, nil
}

// Replays reports whether the poll has a cursor and therefore has results to read.
func (p *Poll) Replays() bool { return p.found != nil }

// NextPoll returns the delay before the next call that the upstream requested, or 0 if it did not request one.
func (p *Poll) NextPoll() time.Duration { return p.next }

// Fill reads results up to the bound. It calls the check repeatedly while more pages are available. The bound's Scan
// applies to the check and to the log separately.
func (p *Poll) Fill(ctx context.Context, into []topic.Outcome, b topic.Bound) (topic.Pulled, error) {
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
		if !s.more {
			return got, p.fillEmitted(ctx, &got, b)
		}
	}
}

// fillEmitted appends emitted occurrences up to the bound.
func (p *Poll) fillEmitted(ctx context.Context, into *topic.Pulled, b topic.Bound) error {
	if !p.emits {
		return nil
	}
	for len(into.Out) < b.Outcomes {
		n := len(into.Out)
		got, err := p.emit.Next(ctx, into.Out, b)
		if err != nil {
			return err
		}
		b.Scan = got.Left
		kept := got.Out[:n]
		for _, o := range got.Out[n:] {
			if p.u.feeds.deliversFromEmit(p.u.hash, o.Entry().EventID) {
				kept = append(kept, o)
			}
		}
		into.Out, into.More = kept, got.More
		into.Gap = into.Gap || got.Gap
		if !got.Gap && (!got.More || len(got.Out) < b.Outcomes) {
			return nil
		}
	}
	more, err := p.emit.Waiting(ctx, b.Scan)
	into.More = more
	return err
}

// Park implements [topic.Source]. An emit ends the wait.
func (p *Poll) Park() bool { return !p.emits || p.emit.Park() }

// Unpark implements [topic.Source]. The next Fill reads the emitted occurrences.
func (p *Poll) Unpark() store.Position {
	if !p.emits {
		return 0
	}
	return p.emit.Unpark()
}

// CursorAfter returns the JSON encoding of the cursor after the first n occurrences that the last call to Fill
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

// Cursor implements [topic.Source].
func (p *Poll) Cursor() []byte {
	if !p.emits {
		return frame.AppendString(nil, p.last)
	}
	return encodeCombinedCursor(p.emit.Place(), p.last)
}

// Close implements [topic.Source].
func (p *Poll) Close() {
	p.release()
	if p.emits {
		p.emit.Close()
	}
}
