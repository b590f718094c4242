package subscriber

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
)

// maxHook bounds the wait for the author's hooks when a subscription is restored.
const maxHook = 10 * time.Second

// errHook means that the hooks took longer than maxHook.
var errHook = fmt.Errorf("the author's hooks did not return within %v", maxHook)

// askHooks calls the author's hooks for a subscription that is being restored and, unless they refuse it, calls
// Join. The result of a hook that takes longer than maxHook is ignored.
func (w *Subscriptions) askHooks(ctx context.Context, sub eventtype.Subscription, a eventtype.Arguments) (refused *events.Error, err error) {
	type answer struct {
		refused *events.Error
		err     error
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxHook, errHook)
	defer cancel()
	answers := make(chan answer, 1)
	ask := func() {
		n := answer{refused: w.host.Refused(ctx, sub.Principal, a)}
		if n.refused == nil {
			n.err = w.host.Join(ctx, sub, a)
		}
		answers <- n
	}
	if !w.background(ask) {
		return nil, errPartClosed
	}
	select {
	case n := <-answers:
		if errors.As(n.err, &n.refused) && n.refused.Kind == wire.Internal {
			n.refused = nil
		}
		return n.refused, n.err
	case <-ctx.Done():
	}
	w.background(func() {
		if n := <-answers; n.refused == nil && n.err == nil {
			w.host.Release(sub, a)
		}
	})
	return nil, context.Cause(ctx)
}
