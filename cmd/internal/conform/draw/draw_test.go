package draw

import (
	"slices"
	"testing"
)

// TestSource draws the same values for the same seed and name, and others for another seed or name.
func TestSource(t *testing.T) {
	t.Parallel()
	numbers := make([]int, 100)
	for i := range numbers {
		numbers[i] = i
	}
	of := func(seed uint64, name string) []int {
		s := New(seed).For(name)
		return append(Some(s, 20, numbers), Pick(s, numbers), s.IntN(100))
	}
	first := of(1, "a")
	if again := of(1, "a"); !slices.Equal(first, again) {
		t.Errorf("%v, then %v", first, again)
	}
	if slices.Equal(first, of(2, "a")) || slices.Equal(first, of(1, "b")) {
		t.Errorf("%v for another seed or name", first)
	}
	some := first[:20]
	slices.Sort(some)
	if len(slices.Compact(some)) != 20 {
		t.Errorf("%v has an element twice", some)
	}
	if all := Some(New(1), 9, []int{1, 2}); len(all) != 2 {
		t.Errorf("9 of 2 elements are %v", all)
	}
}
