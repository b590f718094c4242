package subscriber

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// logOf returns the definition and the log that the progress of a record refers to, in any process. The log is nil if
// the progress refers to something else, for example the cursor of a check, or to a log that another process has.
func (w *Subscriptions) logOf(r *store.Subscription) (d eventtype.Definition, log *topic.Topic) {
	et, ok := w.host.Type(r.Event)
	if !ok || et.Topic() == nil {
		return nil, nil
	}
	d, log = et.Current(), et.Topic()
	if d == nil || d.Check() != nil || r.Progress.Epoch != log.Epoch() || log.Apart() && w.Get(r.ID) == nil {
		return nil, nil
	}
	return d, log
}

// Waiting returns the log that a subscription reads, the position up to which everything is settled according to its
// record, and the number of log entries after it. The log is nil if the number is unknown.
func (w *Subscriptions) Waiting(r *store.Subscription) (log *topic.Topic, base store.Position, behind int64) {
	if _, log = w.logOf(r); log == nil {
		return nil, 0, 0
	}
	base, head := r.Progress.Base, log.Head()
	switch h := w.Get(r.ID); {
	case log.Apart() && h == nil: // it has ended meanwhile
		return nil, 0, 0
	case log.Apart(): // its record is not rewritten when it has passed entries
		base = h.Handle.Base()
	case !r.Progress.Open:
		base = max(base, head)
	}
	return log, base, max(int64(head)-int64(base), 0)
}

// Concerned reports whether the occurrence at p matches a subscription, and whether it is settled according to the
// record.
func (w *Subscriptions) Concerned(ctx context.Context, r *store.Subscription, p store.Position) (concerned, settled bool, err error) {
	d, log := w.logOf(r)
	if log == nil {
		return false, false, nil
	}
	args, err := eventtype.Reparse(d, r.Arguments)
	if err != nil { // this build cannot serve the subscription
		return false, false, nil
	}
	at := log.Reader(args.Arguments, r.ID, nil, p-1)
	pulled, err := at.Next(hook.WithPrincipal(ctx, r.Principal), nil, topic.Batch(1))
	if err != nil {
		return false, false, err
	}
	concerned = len(pulled.Out) > 0 && pulled.Out[0].Entry().Position == p
	progress := delivery.NewWatermark(r.Progress)
	return concerned, !r.Progress.Open || progress.Settled(p), nil
}
