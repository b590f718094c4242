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
	// maxFailedWrites is the number of consecutive failed writes at which Ready fails.
	maxFailedWrites = 3
	// failedFresh is the time that a failed write counts. A process without requests makes no write that could
	// succeed and reset it.
	failedFresh = 30 * time.Second
)

// writes tracks whether writes to the store succeed.
type writes struct {
	mu     sync.Mutex
	failed int       // consecutive failed writes
	last   time.Time // time of the last failure
	err    error
}

// unwritten holds the errors of writes that do not indicate a problem with the store.
var unwritten = []error{events.ErrIDReused, store.ErrConflict, store.ErrUncertain, store.ErrClosed,
	engine.ErrFenced, engine.ErrNewEpoch, engine.ErrRefused, engine.ErrQuota}

// note records the result of a write.
func (w *writes) note(ctx context.Context, err error) {
	if err != nil && (ctx.Err() != nil || slices.ContainsFunc(unwritten, func(e error) bool { return errors.Is(err, e) })) {
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

// failing returns the error of the last write if maxFailedWrites consecutive writes failed, the last one recently.
func (w *writes) failing() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed < maxFailedWrites || time.Since(w.last) >= failedFresh {
		return nil
	}
	return w.err
}
