package topic

import (
	"strings"
	"unicode/utf8"
)

// matchGlob reports whether s matches a pattern in which * matches any text and ? matches one character. It does not
// backtrack, because [findRun] searches for the text between stars. The time is linear in the length of s. If the
// pattern contains a ?, it also grows with len(pattern)/64.
func matchGlob(pattern, s string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	n, ok := runPrefix(head, s)
	if !ok || !star {
		return ok && n == len(s)
	}
	s = s[n:]
	last := strings.LastIndexByte(rest, '*')
	if n, ok = runSuffix(rest[last+1:], s); !ok {
		return false
	}
	s = s[:len(s)-n]
	// The rest of s must contain the runs between the stars in the same order. The first match of each run leaves the
	// most text for the next run.
	for middle := rest[:max(last, 0)]; middle != ""; {
		var run string
		run, middle, _ = strings.Cut(middle, "*")
		end := findRun(run, s)
		if end < 0 {
			return false
		}
		s = s[end:]
	}
	return true
}

// globCost estimates the time that matching a value of n bytes takes, in nanoseconds.
func globCost(pattern string, n int) int {
	if strings.IndexByte(pattern, '?') < 0 {
		return len(pattern) + n
	}
	return 16*len(pattern) + 4*n*(1+len(pattern)/64)
}

// runPrefix returns the length of the prefix of s that matches run, a pattern without stars.
func runPrefix(run, s string) (n int, ok bool) {
	for i := range len(run) {
		switch {
		case n == len(s):
			return 0, false
		case run[i] == '?':
			_, size := utf8.DecodeRuneInString(s[n:])
			n += size
		case run[i] != s[n]:
			return 0, false
		default:
			n++
		}
	}
	return n, true
}

// runSuffix is like runPrefix, but matches run against a suffix of s.
func runSuffix(run, s string) (n int, ok bool) {
	for i := len(run) - 1; i >= 0; i-- {
		rest := s[:len(s)-n]
		switch {
		case rest == "":
			return 0, false
		case run[i] == '?':
			_, size := utf8.DecodeLastRuneInString(rest)
			n += size
		case run[i] != rest[len(rest)-1]:
			return 0, false
		default:
			n++
		}
	}
	return n, true
}

// findRun returns the end of the first match of run in s, or -1 if run does not match. The run must not contain stars.
func findRun(run, s string) int {
	if strings.IndexByte(run, '?') < 0 {
		i := strings.Index(s, run)
		if i < 0 {
			return -1
		}
		return i + len(run)
	}
	// Shift-And (Baeza-Yates and Gonnet, "A new approach to text searching", 1992): bit i of state is set if the first
	// i+1 characters of the run match the text that ends here.
	length := utf8.RuneCountInString(run)
	words := (length + 63) / 64
	wild := make([]uint64, words)
	masks := map[rune][]uint64{}
	i := 0
	for _, c := range run {
		mask := wild
		if c != '?' {
			if mask = masks[c]; mask == nil {
				mask = make([]uint64, words)
				masks[c] = mask
			}
		}
		mask[i/64] |= 1 << (i % 64)
		i++
	}
	state := make([]uint64, words)
	for at, c := range s {
		mask := masks[c]
		carry := uint64(1)
		for w, old := range state {
			allowed := wild[w]
			if mask != nil {
				allowed |= mask[w]
			}
			state[w] = (old<<1 | carry) & allowed
			carry = old >> 63
		}
		if state[words-1]>>((length-1)%64)&1 == 1 {
			return at + utf8.RuneLen(c)
		}
	}
	return -1
}
