package shard

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// REP-20: the outbox is looked at every 20 ms, and again at once where there is more; a failure waits,
// and a fence ends the duty.
func TestREP20Sequencing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.NewTextHandler(io.Discard, nil))
		began := time.Now()
		var at []time.Duration
		results := []struct {
			more bool
			err  error
		}{{}, {more: true}, {}, {err: errLost}, {}, {err: engine.ErrFenced}}
		d := Sequencing(nil, nil, nil, logger)
		fenced := make(chan struct{})
		d.Step = func(_ context.Context, h engine.Hold) (bool, error) {
			if h.Fence == 0 || h.Shard.Topic != engine.OutboxTopic {
				t.Errorf("step under %v", h)
			}
			if len(at) == len(results) {
				return false, nil
			}
			r := results[len(at)]
			at = append(at, time.Since(began))
			if len(at) == len(results) {
				close(fenced)
			}
			return r.more, r.err
		}
		w := newWorld()
		r := w.replica(0, 1, nil)
		r.types = nil
		ended := make(chan bool, 10)
		r.owner.o.Run = func(x *Tenure) {
			d.Run(x)
			ended <- x.Context().Err() != nil
		}
		r.start()
		<-fenced
		if cut := <-ended; !cut {
			t.Error("the tenure goes on after a fence")
		}
		for i, gap := range []time.Duration{20 * time.Millisecond, 0, 20 * time.Millisecond, time.Second, 20 * time.Millisecond} {
			if got := at[i+1] - at[i]; got != gap {
				t.Errorf("step %d came %v after the one before, want %v", i+1, got, gap)
			}
		}
		if err := r.owner.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
