package feed

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// encodeCombinedCursor returns the JSON encoding of the cursor that [combineCursors] returns.
func encodeCombinedCursor(log wire.Cursor, check string) []byte {
	text, err := combineCursors(log, check)
	if err != nil {
		return topic.NullCursor
	}
	return frame.AppendString(nil, text)
}

// resolveCombined returns the start position in the type's log for a request whose cursor combines the positions in
// both sources.
func resolveCombined(ctx context.Context, t *topic.Topic, typ *topic.Type, head store.Position, w topic.Replay) (topic.Start, error) {
	if w.Cursor != nil {
		c, err := topic.ParseCursor(*w.Cursor)
		if err != nil {
			return topic.Start{Position: head, Truncated: true}, nil
		}
		c.Kind = wire.LogCursor
		text := c.String()
		w.Cursor = &text
	}
	return t.Start(ctx, typ, head, w)
}

// A combinedSource reads an event type that has a check and an emitter. It reads the feed of the check first and then
// the emitted occurrences. Its cursor contains both positions.
type combinedSource struct {
	check *feedSource
	emit  topic.Reader
}

func openCombined(ctx context.Context, check *feedSource, head store.Position, w topic.Replay) (*combinedSource, bool, error) {
	t, a := check.seat.Feeds.host.Topic(), check.f.args
	from, err := resolveCombined(ctx, t, a.Of, head, w)
	if err != nil {
		return nil, false, err
	}
	return &combinedSource{check, t.ReaderFrom(a, check.seat.ID, check.seat.Bell, from)}, from.Truncated, nil
}

func (b *combinedSource) Pull(ctx context.Context, into []topic.Outcome) (topic.Pulled, error) {
	p, err := b.check.Pull(ctx, into)
	for i, o := range p.Out {
		if o.Err() == nil {
			p.Out[i] = o.WithCursor(encodeCombinedCursor(b.emit.Place(), o.Entry().Cursor))
		}
	}
	if err != nil || p.Gap {
		return p, err
	}
	n := len(p.Out)
	e, err := b.emit.Pull(ctx, p.Out)
	p.Out, p.More, p.Gap = e.Out, p.More || e.More, e.Gap
	kept := p.Out[:n]
	for _, o := range p.Out[n:] {
		if !b.check.seat.Feeds.deliversFromEmit(b.check.f.hash, o.Entry().EventID) {
			continue
		}
		kept = append(kept, o.WithCursor(encodeCombinedCursor(b.emit.PlaceAfter(o.Entry()), b.check.last)))
	}
	p.Out = kept
	return p, err
}

func (b *combinedSource) Park() bool {
	if !b.check.Park() {
		return false
	}
	if !b.emit.Park() {
		b.check.Unpark()
		return false
	}
	return true
}

func (b *combinedSource) Unpark() store.Position {
	b.check.Unpark()
	return b.emit.Unpark()
}

func (b *combinedSource) Cursor() []byte {
	return encodeCombinedCursor(b.emit.Place(), b.check.last)
}

func (b *combinedSource) Rebind(ctx context.Context, c *Check, a *topic.Arguments) error {
	if err := b.check.Rebind(ctx, c, a); err != nil {
		return err
	}
	b.emit.Rebind(a)
	return nil
}

// Asks implements [Source].
func (b *combinedSource) Asks() bool { return b.check.Asks() }

func (b *combinedSource) Close() {
	b.check.Close()
	b.emit.Close()
}
