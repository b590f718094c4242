package server

import (
	"context"
	"sync/atomic"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A hookReader is a webhook subscription's place in its log or feed, as the delivery engine wants
// it.
type hookReader interface {
	delivery.Reader
	// arguments are those under the present definition; nil when the type is gone.
	arguments() *arguments
	// latest are the last ones that arguments returned.
	latest() *arguments
	// attach tells the handle that is to be woken.
	attach(h *delivery.Handle)
}

// A wakeup wakes the subscription's handle.
type wakeup struct {
	handle *delivery.Handle // set before anything reads or parks
}

func (b *wakeup) ring() { b.handle.Wake() }

func (b *wakeup) attach(h *delivery.Handle) { b.handle = h }

// A binding is a subscription's arguments, taken over to the type's present definition when that
// has changed additively (EVOL-3).
type binding struct {
	et    *eventType
	bound atomic.Pointer[arguments]
}

func (b *binding) arguments() *arguments {
	d, a := b.et.current(), b.bound.Load()
	if d == nil {
		return nil
	}
	if a.def == d {
		return a
	}
	next, err := d.reparse(a.json)
	if err != nil {
		return nil // redefine ends the subscription
	}
	b.bound.Store(next)
	return next
}

func (b *binding) latest() *arguments { return b.bound.Load() }

// A hookLog reads the type's own log for a webhook subscription.
type hookLog struct {
	binding
	wakeup
	principal string
	reader
}

func newHookLog(et *eventType, sub Subscription, a *arguments) *hookLog {
	r := &hookLog{principal: sub.Principal}
	r.et = et
	r.bound.Store(a)
	r.reader = reader{topic: et.topic, args: a, id: sub.ID, slot: -1}
	r.reader.bell = r
	return r
}

// Read implements [delivery.Reader].
func (r *hookLog) Read(ctx context.Context, after store.Position, limit int) (delivery.Found, error) {
	a := r.arguments()
	if a == nil {
		return delivery.Found{Upto: after}, nil
	}
	at := reader{topic: r.topic, args: a, id: r.id, pos: after, slot: -1}
	p, err := at.next(hook.WithPrincipal(ctx, r.principal), nil, limit, 16*readChunk)
	if err != nil {
		return delivery.Found{}, err
	}
	f := delivery.Found{Upto: at.pos, More: p.more, Gap: p.gap}
	for i := range p.out {
		f.Items = append(f.Items, hookItem(r.et.server, p.out[i].rec.entry.Position, &p.out[i]))
	}
	if p.gap && len(f.Items) > 0 {
		// What was found before the gap comes first; the gap is met again after it.
		f.Gap, f.Upto = false, f.Items[len(f.Items)-1].Position
	}
	return f, nil
}

// Park implements [delivery.Reader].
func (r *hookLog) Park(after store.Position) bool {
	a := r.arguments()
	if a == nil {
		return true // the end is on its way
	}
	t := r.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.def != t.def || t.head > after {
		return false
	}
	if r.bucket == nil {
		r.args, r.slot = a, -1
		t.index.attach(&r.reader)
	}
	r.pos, r.first, r.parked = after, 0, true
	t.index.park(&r.reader)
	return true
}

// Unpark implements [delivery.Reader].
func (r *hookLog) Unpark() store.Position {
	r.topic.mu.Lock()
	defer r.topic.mu.Unlock()
	r.topic.settle(&r.reader)
	return r.pos
}

// Passed implements [delivery.Reader].
func (r *hookLog) Passed() store.Position {
	r.topic.mu.Lock()
	defer r.topic.mu.Unlock()
	switch {
	case !r.parked:
		return 0
	case r.first > 0:
		return r.first - 1
	default:
		return max(r.pos, r.topic.head)
	}
}

// Cursor implements [delivery.Reader].
func (r *hookLog) Cursor(p store.Position) *string {
	d := r.bound.Load().def
	if d.info.NoReplay {
		return nil
	}
	c := wire.Cursor{Kind: wire.LogCursor, Name: d.nameHash, Epoch: r.topic.log.Epoch(), Position: uint64(p)}.String()
	return &c
}

// Close implements [delivery.Reader].
func (r *hookLog) Close() { r.topic.detach(&r.reader) }

// hookItem is an outcome as the engine sends it. What cannot be sent is the author's to hear of
// (OCC-4).
func hookItem(s *Server, at store.Position, o *outcome) delivery.Item {
	it := delivery.Item{Position: at, EventID: o.rec.entry.EventID}
	if o.err != nil {
		s.log.Internal(context.Background(), "delivering to a webhook", fault.Unseen{Err: o.err})
		return it
	}
	rec, v := o.rec, o.v
	it.Body = func(cursor *string) ([]byte, error) { return rec.hookBody(v, cursor) }
	return it
}

// hookBody encodes the occurrence as it is posted. The cursor differs between attempts, all else
// was fixed at append (HOOK-1).
func (r *record) hookBody(v *variant, cursor *string) ([]byte, error) {
	b := make([]byte, 0, len(v.data)+len(r.entry.Meta)+320)
	b = r.appendOccurrence(b, v)
	b = append(b, `,"cursor":`...)
	if cursor == nil {
		b = append(b, nullCursor...)
	} else {
		b = appendString(b, *cursor)
	}
	b = append(b, `,"_meta":{`...)
	n := len(b)
	if b = r.appendMeta(b); len(b) == n {
		b = b[:n-len(`,"_meta":{`)]
	} else {
		b = append(b, '}')
	}
	b = append(b, '}')
	if len(b) > wire.MaxBody {
		return nil, webhook.ErrTooLarge
	}
	return b, nil
}

// A hookVoid is the reader of a subscription that only gets its terminated envelope.
type hookVoid struct{}

func (hookVoid) Read(_ context.Context, after store.Position, _ int) (delivery.Found, error) {
	return delivery.Found{Upto: after}, nil
}
func (hookVoid) Park(store.Position) bool      { return true }
func (hookVoid) Unpark() store.Position        { return 0 }
func (hookVoid) Passed() store.Position        { return 0 }
func (hookVoid) Cursor(store.Position) *string { return nil }
func (hookVoid) Close()                        {}
