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
	// maxFailedWrites is how many writes in a row may fail before Ready says so.
	maxFailedWrites = 3
	// failedFresh is how long a failed write counts: a process without requests writes nothing that could succeed.
	failedFresh = 30 * time.Second
)

// writes remember whether the store takes what the server writes.
type writes struct {
	mu     sync.Mutex
	failed int       // writes in a row
	last   time.Time // when the last of them failed
	err    error
}

// unwritten are errors of writes that say nothing about the store.
var unwritten = []error{events.ErrIDReused, store.ErrConflict, store.ErrUncertain, store.ErrClosed,
	engine.ErrFenced, engine.ErrNewEpoch, engine.ErrRefused, engine.ErrQuota}

// note takes in the result of a write.
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

// failing returns the error of the last write if the last ones failed, and not long ago.
func (w *writes) failing() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed < maxFailedWrites || time.Since(w.last) >= failedFresh {
		return nil
	}
	return w.err
}
