//go:build unix

package gen_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/gen"
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

// The CPU time of an enum grows with the number of its values: 8 times the values take less than 24 times as long, far
// from the 64 times of a comparison of each value with each other.
func TestCPUOfLargeEnums(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it generates large enums")
	}
	spent := func(values int) time.Duration {
		var enum, names strings.Builder
		for i := range values {
			fmt.Fprintf(&enum, "v%d, ", i)
			fmt.Fprintf(&names, "N%d, ", i)
		}
		dir := t.TempDir()
		write(t, dir, "a.yaml", fmt.Sprintf("version: 1\nschemas:\n  E: {enum: [%s]}\n  F: {enum: [%s], x-enum-varnames: [%s]}\n", &enum, &enum, &names))
		before := cpuTime()
		p, diags, err := gen.Generate(t.Context(), gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "a"})
		if err != nil || p == nil {
			t.Fatal(diagnosticText(diags), err)
		}
		return cpuTime() - before
	}
	spent(100)
	small := spent(5_000)
	if large := spent(40_000); large > 24*small {
		t.Errorf("5,000 values take %v, 40,000 take %v", small, large)
	}
}
