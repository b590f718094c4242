package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/throwaway"
)

// settings contains the parameters of a run.
type settings struct {
	rounds   int
	duration time.Duration
	streams  int
	kills    int
}

// A bench measures one part. Like a testing.B, it ends the part's goroutine if something fails.
type bench struct {
	context.Context
	settings
	rows []row
	ends []func() // called at the end, the last one first
	err  error
}

// measure runs a part and returns its rows. If the part fails, it returns the rows measured until then.
func measure(ctx context.Context, s settings, part func(*bench)) ([]row, error) {
	b := &bench{Context: ctx, settings: s}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer b.end()
		part(b)
	})
	wg.Wait()
	return b.rows, b.err
}

func (b *bench) end() {
	for _, f := range slices.Backward(b.ends) {
		f()
	}
}

// check ends the part if err is not nil. Only the part's goroutine calls it.
func (b *bench) check(err error) {
	if err != nil {
		b.err = err
		runtime.Goexit()
	}
}

// tempDir returns a new directory that is removed at the end.
func (b *bench) tempDir() string {
	dir, err := os.MkdirTemp("", "mcpe-bench-")
	b.check(err)
	b.ends = append(b.ends, func() { os.RemoveAll(dir) })
	return dir
}

// database starts a PostgreSQL server that syncs commits to disk. If PostgreSQL is not installed, it prints a message
// and returns false.
func (b *bench) database(measured string) (address string, ok bool) {
	exe, err := os.Executable()
	b.check(err)
	address, stop, err := throwaway.Start(filepath.Join(filepath.Dir(exe), "throwaway"), "-durable")
	if errors.Is(err, throwaway.ErrMissing) {
		fmt.Fprintf(os.Stderr, "bench: NOT MEASURED: %s, since PostgreSQL is not installed\n", measured)
		return "", false
	}
	b.check(err)
	b.ends = append(b.ends, func() { stop() })
	return address, true
}

// inTurns makes the measurements alternately, each once a round. It returns the values of each.
func (b *bench) inTurns(all ...func() float64) [][]float64 {
	values := make([][]float64, len(all))
	for range b.rounds {
		for i, f := range all {
			values[i] = append(values[i], f())
		}
	}
	return values
}

// worst makes named measurements in turns. It returns the name and the values of the one with the largest median.
func (b *bench) worst(names []string, f func(i int) float64) (name string, values []float64) {
	var all []func() float64
	for i := range names {
		all = append(all, func() float64 { return f(i) })
	}
	for i, xs := range b.inTurns(all...) {
		if values == nil || median(xs) > median(values) {
			name, values = names[i], xs
		}
	}
	return name, values
}

// seconds calls f after a garbage collection and returns its duration.
func (b *bench) seconds(f func() error) float64 {
	runtime.GC()
	begin := time.Now()
	b.check(f())
	return time.Since(begin).Seconds()
}

// quantile returns the value below which the fraction q of xs is.
func quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(xs))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func median(xs []float64) float64 { return quantile(xs, 0.5) }

// latencies contains percentiles of durations in seconds, one of each for every round.
type latencies struct{ p50, p99 []float64 }

func (l *latencies) add(took []float64) {
	l.p50, l.p99 = append(l.p50, median(took)), append(l.p99, quantile(took, 0.99))
}
