// Package suggest finds the names that a person or a model probably meant. [Nearest] returns one name, and [EventTypes]
// the second half of a message about an unknown event type.
package suggest

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the candidate that was probably misspelled as word, or "".
func Nearest(word string, candidates []string) string {
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
		if max(len(word)-len(c), len(c)-len(word)) > bound {
			continue
		}
		if d := editDistance(word, c); d <= bound && d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// Limits of [EventTypes]: the number of names, and the bytes of the word that it compares with them.
const (
	maxNames = 20
	maxWord  = 128
)

// EventTypes returns the end of a message about an unknown event type called word. It names the event type that was
// probably meant, and lists at most 20 of the names, the nearest first.
func EventTypes(word string, names []string) string {
	if len(names) == 0 {
		return "; the list of event types is empty"
	}
	word = word[:min(len(word), maxWord)]
	distances := make(map[string]int, len(names))
	for _, name := range names {
		distances[name] = editDistance(word, name[:min(len(name), maxWord)])
	}
	text := "; "
	if near := Nearest(word, names); near != "" {
		distances[near] = -1
		text += fmt.Sprintf("did you mean %q? ", near)
	}
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return distances[a] - distances[b] })
	text += "the event types are " + strings.Join(sorted[:min(len(sorted), maxNames)], ", ")
	if more := len(sorted) - maxNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// editDistance returns the minimum number of letters to insert, remove, replace or swap with a neighbor to convert a to
// b.
func editDistance(a, b string) int {
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
