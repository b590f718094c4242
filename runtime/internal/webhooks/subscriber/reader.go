package subscriber

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A boundReader reads the log or feed of a webhook subscription for the delivery engine.
type boundReader interface {
	delivery.Reader
	// arguments returns the arguments under the current definition. It returns false if the type no longer exists or
	// does not accept them.
	arguments() (eventtype.Arguments, bool)
	// currentArguments returns the last result of arguments.
	currentArguments() eventtype.Arguments
	// attach sets the handle to wake.
	attach(h *delivery.Handle)
}

// A wakeup is a [topic.Bell] that wakes the subscription's handle.
type wakeup struct {
	handle *delivery.Handle // set before the first Read or Park
}

// Ring implements [topic.Bell].
func (b *wakeup) Ring() { b.handle.Wake() }

func (b *wakeup) attach(h *delivery.Handle) { b.handle = h }

// A binding contains a subscription's arguments. After an additive change, the arguments are parsed again for the
// type's current definition (EVOL-3).
type binding struct {
	et    eventtype.Type
	bound atomic.Pointer[eventtype.Arguments]
}

func (b *binding) arguments() (a eventtype.Arguments, ok bool) {
	d, a := b.et.Current(), b.currentArguments()
	if d == nil {
		return eventtype.Arguments{}, false
	}
	if a.Def == d {
		return a, true
	}
	next, err := eventtype.Reparse(d, a.JSON)
	if err != nil {
		return eventtype.Arguments{}, false // Redefined ends the subscription
	}
	b.bound.Store(&next)
	return next, true
}

func (b *binding) currentArguments() eventtype.Arguments { return *b.bound.Load() }

// A logReader reads the type's log for a webhook subscription.
type logReader struct {
	binding
	wakeup
	w         *Subscriptions
	principal string
	id        string
	reader    topic.Reader
}

func (w *Subscriptions) newLogReader(et eventtype.Type, sub eventtype.Subscription, a eventtype.Arguments) *logReader {
	r := &logReader{w: w, principal: sub.Principal, id: sub.ID}
	r.et = et
	r.bound.Store(&a)
	r.reader = et.Topic().Reader(a.Arguments, sub.ID, r, 0)
	return r
}

// Read implements [delivery.Reader].
func (r *logReader) Read(ctx context.Context, after store.Position, limit int) (delivery.Found, error) {
	a, ok := r.arguments()
	if !ok {
		return delivery.Found{}, errUnread // it ends, or moves to a process that serves it
	}
	at := r.reader.Topic().Reader(a.Arguments, r.id, nil, after)
	p, err := at.Next(hook.WithPrincipal(ctx, r.principal), nil, topic.Batch(limit))
	if err != nil {
		return delivery.Found{}, err
	}
	f := delivery.Found{Upto: at.Position(), More: p.More, Gap: p.Gap}
	for i := range p.Out {
		f.Items = append(f.Items, deliveryItem(r.w, p.Out[i].Entry().Position, &p.Out[i]))
	}
	if p.Gap && len(f.Items) > 0 {
		// Return the occurrences before the gap first; the next Read finds the gap.
		f.Gap, f.Upto = false, f.Items[len(f.Items)-1].Position
	}
	return f, nil
}

// errUnread is returned for entries that a subscription cannot read, so they are not treated as mismatches.
var errUnread = errors.New("the event type as registered here cannot serve the subscription")

// Park implements [delivery.Reader].
func (r *logReader) Park(after store.Position) bool {
	a, ok := r.arguments()
	return ok && r.reader.ParkAt(a.Arguments, after)
}

// Unpark implements [delivery.Reader].
func (r *logReader) Unpark() store.Position { return r.reader.Unpark() }

// Passed implements [delivery.Reader].
func (r *logReader) Passed() store.Position { return r.reader.Passed() }

// Cursor implements [delivery.Reader].
func (r *logReader) Cursor(p store.Position) *string {
	return cursorText(r.reader.Topic().Cursor(r.currentArguments().Def.Kernel(), p))
}

// Close implements [delivery.Reader].
func (r *logReader) Close() { r.reader.Close() }

// cursorText decodes a cursor from JSON. It returns nil for null.
func cursorText(cursor []byte) *string {
	var s *string
	if json.Unmarshal(cursor, &s) != nil {
		return nil
	}
	return s
}

// deliveryItem converts an outcome to a delivery.Item. If the occurrence cannot be sent, deliveryItem logs the error
// for the author (OCC-4).
func deliveryItem(w *Subscriptions, at store.Position, o *topic.Outcome) delivery.Item {
	it := delivery.Item{Position: at, EventID: o.Entry().EventID}
	if o.Err() != nil {
		w.o.Log.Internal(context.Background(), "delivering to a webhook", fault.Unseen{Err: o.Err()})
		return it
	}
	sent := *o
	it.Body = func(cursor *string) ([]byte, error) {
		b := sent.Body(cursor)
		if len(b) > wire.MaxBody {
			return nil, webhook.ErrTooLarge
		}
		return b, nil
	}
	return it
}

// An endedReader is the reader of an ended subscription that only sends a terminated envelope. It reads nothing.
type endedReader struct{}

func (endedReader) Read(_ context.Context, after store.Position, _ int) (delivery.Found, error) {
	return delivery.Found{Upto: after}, nil
}
func (endedReader) Park(store.Position) bool      { return true }
func (endedReader) Unpark() store.Position        { return 0 }
func (endedReader) Passed() store.Position        { return 0 }
func (endedReader) Cursor(store.Position) *string { return nil }
func (endedReader) Close()                        {}
