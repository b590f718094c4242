package sampletest

import (
	"slices"
	"testing"
)

// A sample is the same for one seed and another for another.
func TestDraw(t *testing.T) {
	all := make([]int, 1000)
	for i := range all {
		all[i] = i
	}
	t.Setenv(All, "")
	t.Setenv(Seed, "one")
	one, same := Draw(t, all, 10), Draw(t, all, 10)
	t.Setenv(Seed, "two")
	two := Draw(t, all, 10)
	if !slices.Equal(one, same) || slices.Equal(one, two) || len(one) != 10 {
		t.Errorf("%v, %v, %v", one, same, two)
	}
	t.Setenv(All, "1")
	if !slices.Equal(Draw(t, all, 10), all) {
		t.Error("not everything")
	}
}
