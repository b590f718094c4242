//go:build unix

package gen_test

import (
	"syscall"
	"testing"
	"time"
)

// reportCPU reports the processor time of an operation, which a busy machine does not stretch; call
// what it returns when all operations are done.
func reportCPU(b *testing.B) func() {
	b.Helper()
	before := cpuTime()
	return func() { b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op") }
}

// cpuTime is that of this process and of those it has waited for.
func cpuTime() time.Duration {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}
