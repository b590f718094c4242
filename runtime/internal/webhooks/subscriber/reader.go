package subscriber

import (
	"context"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/reading"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A boundReader reads the log or feed of a webhook subscription for the delivery engine.
type boundReader interface {
	delivery.Reader
	// Current and Arguments are those of the [reading.Binding].
	Current() (eventtype.Arguments, error)
	Arguments() eventtype.Arguments
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

// A logReader reads the type's log for a webhook subscription.
type logReader struct {
	reading.Binding
	wakeup
	topic.Reader
	w *Subscriptions
}

func (w *Subscriptions) newLogReader(et eventtype.Type, sub eventtype.Subscription, a eventtype.Arguments) *logReader {
	r := &logReader{w: w, Binding: reading.Bind(et, a)}
	r.Reader = et.Topic().Reader(a.Arguments, sub.ID, r, 0)
	return r
}

// Read implements [delivery.Reader].
func (r *logReader) Read(ctx context.Context, after store.Position, limit int) (delivery.Found, error) {
	a, err := r.Current()
	if err != nil {
		return delivery.Found{}, errUnread // it ends, or moves to a process that serves it
	}
	at := r.Topic().Reader(a.Arguments, r.handle.ID(), nil, after)
	p, err := at.Next(hook.WithPrincipal(ctx, r.handle.Principal()), nil, topic.Batch(limit))
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
	a, err := r.Current()
	return err == nil && r.ParkAt(a.Arguments, after)
}

// Cursor implements [delivery.Reader].
func (r *logReader) Cursor(p store.Position) *string {
	return r.Topic().Cursor(r.Arguments().Def.Kernel(), p)
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
