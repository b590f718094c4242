package source

import "strings"

// Suggest returns the candidate that was probably misspelled as word, or "".
func Suggest(word string, candidates []string) string {
	best, bestDistance := "", 3
	for _, c := range candidates {
		if strings.EqualFold(word, c) {
			return c
		}
		bound := 0
		switch n := min(len(word), len(c)); {
		case n >= 6:
			bound = 2
		case n >= 3:
			bound = 1
		}
		if d := editDistance(word, c); d <= bound && d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance returns the minimum number of letters to insert, remove, replace or swap with a neighbor to convert a to
// b. If the lengths differ by more than 2, it returns 3.
func editDistance(a, b string) int {
	if len(a)-len(b) > 2 || len(b)-len(a) > 2 {
		return 3
	}
	before := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
