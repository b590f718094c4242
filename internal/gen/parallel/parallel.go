// Package parallel runs independent steps on all processors. Each step stores its result at its own index, so the
// results do not depend on the order of completion.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Do calls f for each integer from 0 to n-1 in parallel, and returns when all calls have returned.
func Do(n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}
