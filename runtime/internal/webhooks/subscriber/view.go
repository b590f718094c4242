package subscriber

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// logOf returns the definition and the log that the progress of a record refers to, in any process. If it refers to
// something else, for example the cursor of a check, ok is false.
func (w *Subscriptions) logOf(r *store.Subscription) (d eventtype.Definition, log *topic.Topic, ok bool) {
	et, ok := w.host.Type(r.Event)
	if !ok || et.Topic() == nil {
		return nil, nil, false
	}
	d, log = et.Current(), et.Topic()
	return d, log, d != nil && d.Check() == nil && r.Progress.Epoch == log.Epoch() && (!log.Apart() || w.Get(r.ID) != nil)
}

// Waiting returns the position up to which everything is settled according to a record, and the number of log entries
// after it. If the position does not refer to a log that this process has, ok is false.
func (w *Subscriptions) Waiting(r *store.Subscription) (base store.Position, behind int64, ok bool) {
	_, log, ok := w.logOf(r)
	if !ok {
		return 0, 0, false
	}
	base, head := r.Progress.Base, log.Head()
	switch {
	case log.Apart(): // only this process has the log
		base = w.Get(r.ID).Handle.Base()
	case !r.Progress.Open:
		base = max(base, head)
	}
	return base, max(int64(head)-int64(base), 0), true
}

// Concerned reports whether the occurrence at p matches a subscription, and whether it is settled according to the
// record.
func (w *Subscriptions) Concerned(ctx context.Context, r *store.Subscription, p store.Position) (concerned, settled bool, err error) {
	d, log, ok := w.logOf(r)
	if !ok {
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
