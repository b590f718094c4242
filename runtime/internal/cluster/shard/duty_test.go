package shard

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// REP-20: the outbox is read every 20 ms, and immediately if there is more; after a failure the duty waits, and a
// fence ends it.
func TestREP20Sequencing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.NewTextHandler(io.Discard, nil))
		began := time.Now()
		var at []time.Duration
		results := []struct {
			done Stepped
			err  error
		}{{}, {done: Stepped{true, true}}, {}, {err: errLost}, {}, {err: engine.ErrFenced}}
		d := Sequencing(nil, nil, nil, logger)
		fenced := make(chan struct{})
		d.Step = func(_ context.Context, h engine.ShardFence) (Stepped, error) {
			if h.Fence == 0 || h.Shard.Topic != engine.OutboxTopic {
				t.Errorf("step under %v", h)
			}
			if len(at) == len(results) {
				return Stepped{}, nil
			}
			r := results[len(at)]
			at = append(at, time.Since(began))
			if len(at) == len(results) {
				close(fenced)
			}
			return r.done, r.err
		}
		w := newWorld()
		r := w.replica(0, 1, nil)
		r.types = nil
		ended := make(chan bool, 10)
		r.owner.o.Run = func(x *Ownership) {
			d.Run(x)
			ended <- x.Context().Err() != nil
		}
		r.start()
		<-fenced
		if cut := <-ended; !cut {
			t.Error("the ownership goes on after a fence")
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

// REP-6: a lasting failure of a duty is logged once a minute, and a new one immediately.
func TestREP6FailuresAreToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		var fails atomic.Bool
		fails.Store(true)
		d := Retaining(nil, slog.New(slog.NewTextHandler(&text, nil)))
		d.Step = func(context.Context, engine.ShardFence) (Stepped, error) {
			if fails.Load() {
				return Stepped{}, errLost
			}
			return Stepped{}, nil
		}
		d.Every = time.Second
		r := newWorld().replica(0, 1, nil)
		r.types = nil
		r.owner.o.Run = d.Run
		r.start()
		time.Sleep(3*time.Minute + 30*time.Second)
		fails.Store(false)
		time.Sleep(5 * time.Second)
		fails.Store(true)
		time.Sleep(5 * time.Second)
		if err := r.owner.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if n := strings.Count(text.String(), "deleting expired entries"); n != 5 {
			t.Errorf("told %d times, want 5: %s", n, text.String())
		}
	})
}

// REP-20, K9: an unused outbox is read four times a second, and 50 times from the first row on.
func TestREP20Rest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var looks []time.Duration
		var found atomic.Bool
		d := Sequencing(nil, nil, nil, slog.New(slog.DiscardHandler))
		d.Step = func(context.Context, engine.ShardFence) (Stepped, error) {
			looks = append(looks, time.Since(began))
			return Stepped{Found: found.Swap(false)}, nil
		}
		r := newWorld().replica(0, 1, nil)
		r.types = nil
		r.owner.o.Run = d.Run
		r.start()
		time.Sleep(2 * time.Minute)
		found.Store(true)
		time.Sleep(time.Minute)
		if err := r.owner.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		between := func(from, to time.Duration) (n int) {
			for _, at := range looks {
				if at >= looks[0]+from && at < looks[0]+to {
					n++
				}
			}
			return n
		}
		for _, c := range []struct {
			from, to time.Duration
			want     int
		}{
			{0, 10 * time.Second, 500},
			{11 * time.Second, time.Minute, 4 * 49},
			{2*time.Minute + time.Second, 2*time.Minute + 9*time.Second, 8 * 50},
			{2*time.Minute + 20*time.Second, 2*time.Minute + 50*time.Second, 4 * 30},
		} {
			if n := between(c.from, c.to); n < c.want-1 || n > c.want+1 {
				t.Errorf("from %v to %v: %d looks, want %d", c.from, c.to, n, c.want)
			}
		}
	})
}
