package feed

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// bothCursor returns the JSON encoding of the cursor that [bothText] returns.
func bothCursor(log wire.Cursor, check string) []byte {
	text, err := bothText(log, check)
	if err != nil {
		return topic.NullCursor
	}
	return frame.AppendString(nil, text)
}

// resolveBoth returns the start in the type's log for a request whose cursor combines both sources.
func resolveBoth(ctx context.Context, t *topic.Topic, typ *topic.Type, head store.Position, w topic.Replay) (topic.Start, error) {
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

// A bothSource reads a type that has both a check and an emitter. It reads the feed of the check first and then the
// emitted occurrences. Its cursor contains both positions.
type bothSource struct {
	check *feedSource
	emit  topic.Reader
}

func openBoth(ctx context.Context, check *feedSource, head store.Position, w topic.Replay) (*bothSource, bool, error) {
	t, a := check.seat.Feeds.host.Topic(), check.f.args
	from, err := resolveBoth(ctx, t, a.Of, head, w)
	if err != nil {
		return nil, false, err
	}
	return &bothSource{check, t.ReaderFrom(a, check.seat.ID, check.seat.Bell, from)}, from.Truncated, nil
}

func (b *bothSource) Pull(ctx context.Context, into []topic.Outcome) (topic.Pulled, error) {
	p, err := b.check.Pull(ctx, into)
	for i, o := range p.Out {
		if o.Err() == nil {
			p.Out[i] = o.WithCursor(bothCursor(b.emit.Place(), o.Entry().Cursor))
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
		if !b.check.seat.Feeds.fromEmit(b.check.f.hash, o.Entry().EventID) {
			continue
		}
		kept = append(kept, o.WithCursor(bothCursor(b.emit.PlaceAfter(o.Entry()), b.check.last)))
	}
	p.Out = kept
	return p, err
}

func (b *bothSource) Park() bool {
	if !b.check.Park() {
		return false
	}
	if !b.emit.Park() {
		b.check.Unpark()
		return false
	}
	return true
}

func (b *bothSource) Unpark() store.Position {
	b.check.Unpark()
	return b.emit.Unpark()
}

func (b *bothSource) Cursor() []byte {
	return bothCursor(b.emit.Place(), b.check.last)
}

func (b *bothSource) Rebind(ctx context.Context, c *Check, a *topic.Arguments) error {
	if err := b.check.Rebind(ctx, c, a); err != nil {
		return err
	}
	b.emit.Rebind(a)
	return nil
}

// Asks implements [Source].
func (b *bothSource) Asks() bool { return b.check.Asks() }

func (b *bothSource) Close() {
	b.check.Close()
	b.emit.Close()
}
