package subscriber

import (
	"context"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
)

// ReportWhileStarting has the engine report the end of a subscription between Add and addLive.
func (w *Subscriptions) ReportWhileStarting(ctx context.Context, id string, why delivery.End) error {
	unlock, err := w.keys.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	h := w.Get(id)
	setLive := func(set func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		set()
	}
	setLive(func() { delete(w.byID, id) })
	w.handleEnded(h.Handle, why)
	synctest.Wait()
	setLive(func() { w.byID[id] = h })
	return nil
}
