package listeners

import (
	"slices"
	"testing"
)

// Listeners are told in the order in which they came, twice where the same came twice, and may add and remove while
// they are told.
func TestSet(t *testing.T) {
	var s Set[string]
	first, _, again := s.Add("a"), s.Add("b"), s.Add("a")
	if got := slices.Collect(s.All()); !slices.Equal(got, []string{"a", "b", "a"}) {
		t.Fatalf("got %q", got)
	}
	var told []string
	for l := range s.All() {
		told = append(told, l)
		if l == "b" {
			first()
			first()
			again()
			s.Add("c")
		}
	}
	if !slices.Equal(told, []string{"a", "b", "a"}) {
		t.Errorf("a change while they were told has changed who was told: %q", told)
	}
	if got := slices.Collect(s.All()); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("after it %q are left", got)
	}
}
