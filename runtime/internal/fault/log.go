package fault

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
)

// A Log logs the errors that never go on the wire, for the operator. It logs the stack of a hook's panic only the first
// time for each place: a hook may panic for every occurrence and every subscription.
type Log struct {
	Logger *slog.Logger

	panics sync.Map // Place → struct{}: places whose stack was logged
}

// Internal logs err with the operation that failed. It skips errors that were made for the caller, who receives them,
// and errors after the caller has disconnected. It logs an error that wraps one for the caller, since it has more details than the caller receives.
func (l *Log) Internal(ctx context.Context, doing string, err error) {
	if h := (*hook.Error)(nil); errors.As(err, &h) && h == err {
		err = h.Err
	}
	var e *events.Error
	if errors.As(err, &e) && (e.Kind != wire.Internal || e == ErrShuttingDown) && e == err {
		return // made for the caller, nothing to add
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return // the caller has disconnected
	}
	attrs := []any{"error", err}
	var p *hook.Panic
	if errors.As(err, &p) {
		if _, known := l.panics.LoadOrStore(p.Place, struct{}{}); !known {
			attrs = append(attrs, "stack", string(p.Stack))
		}
	}
	l.Logger.ErrorContext(ctx, "mcp events: "+doing+" failed", attrs...)
}

// Every calls f at each interval until ctx is done. It logs the first of consecutive failures, as [Log.Internal] does.
func (l *Log) Every(ctx context.Context, interval time.Duration, doing string, f func() error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := f()
		if err != nil && !failing && ctx.Err() == nil {
			l.Internal(ctx, doing, err)
		}
		failing = err != nil
	}
}

// Unseen hides an error's kind from [Log.Internal], since the caller did not receive it.
type Unseen struct{ Err error }

func (e Unseen) Error() string { return e.Err.Error() }

func (e Unseen) Unwrap() error {
	var typed *events.Error
	if errors.As(e.Err, &typed) {
		return nil
	}
	return e.Err
}
