package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxFailedWrites is the number of consecutive failed writes that cause Ready to fail.
	maxFailedWrites = 3
	// failureTTL is the time for which a failed write affects Ready. An idle process does not write, so no successful
	// write would reset the failure.
	failureTTL = 30 * time.Second
)

// A writeHealth tracks whether writes to the store succeed.
type writeHealth struct {
	mu     sync.Mutex
	failed int       // consecutive failed writes
	last   time.Time // time of the last failure
	err    error
}

// harmlessErrors lists write errors that do not indicate a problem with the store.
var harmlessErrors = []error{events.ErrIDReused, store.ErrConflict, store.ErrUncertain, store.ErrClosed,
	engine.ErrFenced, engine.ErrNewEpoch, engine.ErrRefused, engine.ErrQuota}

// recordResult records the result of a write.
func (w *writeHealth) recordResult(ctx context.Context, err error) {
	if err != nil && (ctx.Err() != nil || slices.ContainsFunc(harmlessErrors, func(e error) bool { return errors.Is(err, e) })) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err = err; err == nil {
		w.failed = 0
		return
	}
	w.failed++
	w.last = time.Now()
}

// persistentFailure returns the error of the last write if the last maxFailedWrites writes failed and the last of these
// failures is recent.
func (w *writeHealth) persistentFailure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed < maxFailedWrites || time.Since(w.last) >= failureTTL {
		return nil
	}
	return w.err
}
