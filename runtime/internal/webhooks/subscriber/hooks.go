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

// hookTimeout is the timeout for the author's hooks when a subscription is restored.
const hookTimeout = 10 * time.Second

// errHookTimeout is returned if the hooks take longer than hookTimeout.
var errHookTimeout = fmt.Errorf("the author's hooks did not return within %v", hookTimeout)

// callHooks calls the author's hooks for a subscription that is being restored. If the hooks do not refuse the
// subscription, callHooks then calls Join. It ignores the result of a hook that takes longer than hookTimeout.
func (w *Subscriptions) callHooks(ctx context.Context, sub eventtype.Subscription, a eventtype.Arguments) (refused *events.Error, err error) {
	type answer struct {
		refused *events.Error
		err     error
	}
	ctx, cancel := context.WithTimeoutCause(ctx, hookTimeout, errHookTimeout)
	defer cancel()
	answers := make(chan answer, 1)
	ask := func() {
		n := answer{refused: w.host.Refused(ctx, sub.Principal, a)}
		if n.refused == nil {
			n.err = w.host.Join(ctx, sub, a)
		}
		answers <- n
	}
	if !w.runInBackground(ask) {
		return nil, errShardClosed
	}
	select {
	case n := <-answers:
		if errors.As(n.err, &n.refused) && n.refused.Kind == wire.Internal {
			n.refused = nil
		}
		return n.refused, n.err
	case <-ctx.Done():
	}
	w.runInBackground(func() {
		if n := <-answers; n.refused == nil && n.err == nil {
			w.host.Release(sub, a)
		}
	})
	return nil, context.Cause(ctx)
}
