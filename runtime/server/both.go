package server

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// parseCheckCursor reads a cursor that upstream.text made.
func parseCheckCursor(text string) (wire.Cursor, error) { return wire.ParseCursor(text) }

// bothCursor joins a place in the type's log with a place upstream, as JSON.
func bothCursor(t *topic, pos store.Position, check string) []byte {
	c, err := parseCheckCursor(check)
	if err != nil {
		return nullCursor // unreachable: check is always one of ours
	}
	c.Kind, c.Epoch, c.Position = wire.BothCursor, t.log.Epoch(), uint64(pos)
	return appendString(nil, c.String())
}

// resolveBoth finds the start in the type's log of a cursor of both sources.
func resolveBoth(ctx context.Context, t *topic, d *definition, head store.Position, w replay) (start, error) {
	if w.cursor != nil {
		c, err := parseCursor(*w.cursor)
		if err != nil {
			return start{pos: head, truncated: true}, nil
		}
		c.Kind = wire.LogCursor
		text := c.String()
		w.cursor = &text
	}
	return resolveCursor(ctx, t, d, head, w)
}

// withCursor is the outcome with another cursor: that of this stream, which cannot be shared.
func (o outcome) withCursor(cursor []byte) outcome {
	if o.err != nil {
		return o
	}
	rec := &record{entry: o.rec.entry, def: o.rec.def, cursor: cursor}
	return outcome{rec: rec, v: &variant{done: true, data: o.v.data}}
}

// A bothSource is a stream's reader of a type with both sources: the feed of its check first, then
// what was emitted. Its cursor carries both places.
type bothSource struct {
	check *feedSource
	emit  *logSource
}

func openBoth(ctx context.Context, check *feedSource, head store.Position, w replay) (*bothSource, bool, error) {
	t, a := check.seat.et.topic, check.args
	from, err := resolveBoth(ctx, t, a.def, head, w)
	if err != nil {
		return nil, false, err
	}
	emit := &logSource{reader: check.seat.reader(t, a)}
	emit.pos = from.pos
	return &bothSource{check, emit}, from.truncated, nil
}

func (b *bothSource) pull(ctx context.Context, into []outcome) (pulled, error) {
	p, err := b.check.pull(ctx, into)
	for i, o := range p.out {
		if o.err == nil {
			p.out[i] = o.withCursor(bothCursor(b.emit.topic, b.emit.pos, o.rec.entry.Cursor))
		}
	}
	if err != nil || p.gap {
		return p, err
	}
	n := len(p.out)
	e, err := b.emit.pull(ctx, p.out)
	p.out, p.more, p.gap = e.out, p.more || e.more, e.gap
	kept := p.out[:n]
	for _, o := range p.out[n:] {
		if !b.check.seat.et.origins.fromEmit(b.check.f.hash, o.rec.entry.EventID) {
			continue
		}
		kept = append(kept, o.withCursor(bothCursor(b.emit.topic, o.rec.entry.Position, b.check.last)))
	}
	p.out = kept
	return p, err
}

func (b *bothSource) park() bool {
	if !b.check.park() {
		return false
	}
	if !b.emit.park() {
		b.check.unpark()
		return false
	}
	return true
}

func (b *bothSource) unpark() {
	b.check.unpark()
	b.emit.unpark()
}

func (b *bothSource) cursor() []byte { return bothCursor(b.emit.topic, b.emit.pos, b.check.last) }

func (b *bothSource) rebind(ctx context.Context, a *arguments) error {
	if err := b.check.rebind(ctx, a); err != nil {
		return err
	}
	return b.emit.rebind(ctx, a)
}

func (b *bothSource) close() {
	b.check.close()
	b.emit.close()
}
