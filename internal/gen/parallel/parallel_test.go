package parallel_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/parallel"
)

func TestDo(t *testing.T) {
	for _, n := range []int{0, 1, 2, 1000} {
		done := make([]int, n)
		parallel.Do(n, func(i int) { done[i]++ })
		for i, times := range done {
			if times != 1 {
				t.Errorf("of %d, call %d was made %d times", n, i, times)
			}
		}
	}
}
