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

// A Log tells the operator what never goes on the wire. The stack of a hook's panic is in it the first
// time for each place: a hook may panic for every occurrence and every subscription.
type Log struct {
	Logger *slog.Logger

	panics sync.Map // place2 → struct{}: those whose stack is in the log
}

// Internal logs err, with what was being done, unless it was made for the caller, who has it, or the
// caller went away. An error that wraps one for the caller is logged: it says more than the caller gets.
func (l *Log) Internal(ctx context.Context, doing string, err error) {
	if h := (*hook.Error)(nil); errors.As(err, &h) && h == err {
		err = h.Err
	}
	var e *events.Error
	if errors.As(err, &e) && (e.Kind != wire.Internal || e == ErrShuttingDown) && e == err {
		return // made for the caller, nothing to add
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return // the caller went away
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

// Every calls f again and again, with an interval before each call, until ctx is done. Of failures in a row it logs the first, as
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

// Unseen hides an error's kind from [Log.Internal]: the caller did not get to see it.
type Unseen struct{ Err error }

func (e Unseen) Error() string { return e.Err.Error() }

func (e Unseen) Unwrap() error {
	var typed *events.Error
	if errors.As(e.Err, &typed) {
		return nil
	}
	return e.Err
}
