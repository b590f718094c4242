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

// A Log logs errors that are not sent to callers. It logs the stack of a hook's panic only once for each place, because
// a hook might panic for every occurrence and subscription.
type Log struct {
	Logger *slog.Logger

	panics sync.Map // set of places whose stack has been logged
}

// Internal logs err and the operation that failed. It ignores errors that are sent to the caller, and errors that occur
// because the caller has disconnected. However, it logs errors that wrap an error for the caller, because they contain
// more details.
func (l *Log) Internal(ctx context.Context, doing string, err error) {
	if h := (*hook.Error)(nil); errors.As(err, &h) && h == err {
		err = h.Err
	}
	var e *events.Error
	if errors.As(err, &e) && (e.Kind != wire.Internal || e == ErrShuttingDown) && e == err {
		return // sent to the caller without further details
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

// Every calls f at the given interval until ctx is done. It logs only the first of consecutive failures, as
// [Log.Internal] does.
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

// Unseen hides the kind of an error that the caller does not receive, so [Log.Internal] logs the error.
type Unseen struct{ Err error }

func (e Unseen) Error() string { return e.Err.Error() }

func (e Unseen) Unwrap() error {
	var typed *events.Error
	if errors.As(e.Err, &typed) {
		return nil
	}
	return e.Err
}
