// Package parallel runs the independent steps of a generation on all processors. Results go to the
// place of their index, so that the outcome does not depend on which step ends first.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Do calls f for 0 to n-1 and returns when all calls have returned.
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
