package source

import (
	"math"
	"strconv"
)

// UniqueName returns base if taken does not contain it, or otherwise base with a separator and a number. It adds the name
// to taken.
func UniqueName(base, separator string, taken map[string]bool) string {
	return ShortUniqueName(base, separator, math.MaxInt, taken)
}

// ShortUniqueName is like [UniqueName], but shortens base if the name with a number exceeds most bytes.
func ShortUniqueName(base, separator string, most int, taken map[string]bool) string {
	name := base
	for i := 2; taken[name]; i++ {
		suffix := separator + strconv.Itoa(i)
		name = base[:min(len(base), most-len(suffix))] + suffix
	}
	taken[name] = true
	return name
}
