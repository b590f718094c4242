package topic

import (
	"strings"
	"unicode/utf8"
	"unsafe"
)

// A glob is a compiled pattern in which * matches any text and ? matches one character. Matching a value does not
// backtrack: it takes time linear in the length of the value, and allocates no memory for a pattern within the limits.
type glob struct {
	head, tail string    // before the first star and after the last one
	middle     string    // between them: runs separated by stars
	words      []runWord // the runs of middle that contain a ?, one after another
	shortest   uint32    // the minimum length of a matching value, in bytes
	widest     uint16    // the maximum number of words of a run that contains a ?
	star       bool      // the pattern contains a star; otherwise it is head
}

// A runWord contains the masks of 64 positions in runs of a pattern. A position is a byte of the run, or a ?. It
// accepts a byte if its bit is set in the four masks that the four pairs of the byte's bits select. A ? accepts the
// first byte of a character. It keeps its state for the continuation bytes, which follow.
type runWord struct {
	masks [4][4]uint64 // the first for the upper pair
	any   uint64       // positions with a ?
}

// pairs returns the four pairs of bits of c. The first is the upper pair, which is 10 in a continuation byte.
func pairs(c byte) [4]byte { return [4]byte{c >> 6, c >> 4 & 3, c >> 2 & 3, c & 3} }

// compileGlob compiles a pattern.
func compileGlob(pattern string) *glob {
	g := &glob{shortest: uint32(len(pattern) - strings.Count(pattern, "*"))}
	var rest string
	g.head, rest, g.star = strings.Cut(pattern, "*")
	last := strings.LastIndexByte(rest, '*')
	g.tail, g.middle = rest[last+1:], rest[:max(last, 0)]
	var positions []byte
	for run := range strings.SplitSeq(g.middle, "*") {
		if strings.IndexByte(run, '?') >= 0 {
			first := len(positions)
			positions = append(positions, run...)
			g.widest = max(g.widest, uint16((len(positions)-1)/64-first/64+1))
		}
	}
	g.words = make([]runWord, (len(positions)+63)/64)
	for i, c := range positions {
		g.words[i/64].set(i%64, c)
	}
	return g
}

// set makes the position with the given bit accept c, or one character if c is a ?.
func (w *runWord) set(bit int, c byte) {
	mask := uint64(1) << bit
	if c != '?' {
		for i, pair := range pairs(c) {
			w.masks[i][pair] |= mask
		}
		return
	}
	w.any |= mask
	for i := range w.masks {
		for pair := range w.masks[i] {
			if i > 0 || pair != 0b10 {
				w.masks[i][pair] |= mask
			}
		}
	}
}

// longestRun returns the length of the longest run between stars that contains a ?, in bytes.
func (g *glob) longestRun() int {
	longest := 0
	for run := range strings.SplitSeq(g.middle, "*") {
		if strings.IndexByte(run, '?') >= 0 {
			longest = max(longest, len(run))
		}
	}
	return longest
}

// size returns the memory that the glob uses in addition to the pattern, in bytes.
func (g *glob) size() int { return int(unsafe.Sizeof(*g)) + len(g.words)*int(unsafe.Sizeof(runWord{})) }

// cost estimates the time to match n values with a total length in bytes, in nanoseconds. The parameter longest is the
// length of the longest value. The estimate has a bound that does not depend on the pattern, because [MaxRun] limits
// widest.
func (g *glob) cost(n, length, longest int) int {
	if longest < int(g.shortest) {
		return 0
	}
	if g.middle == "" {
		length = min(length, n*(len(g.head)+len(g.tail)))
	}
	if g.widest == 0 {
		return 16*n + 2*length
	}
	return 16*n + length*(4+4*int(g.widest))
}

// matches reports whether s matches the pattern.
func (g *glob) matches(s string) bool {
	if len(s) < int(g.shortest) {
		return false
	}
	n, ok := runPrefix(g.head, s)
	if !ok || !g.star {
		return ok && n == len(s)
	}
	s = s[n:]
	if n, ok = runSuffix(g.tail, s); !ok {
		return false
	}
	s = s[:len(s)-n]
	// The rest of s must contain the runs between the stars in the same order. The first match of each run leaves the
	// most text for the next run.
	at := 0
	for middle := g.middle; middle != ""; {
		var run string
		run, middle, _ = strings.Cut(middle, "*")
		end := 0
		if strings.IndexByte(run, '?') >= 0 {
			end = g.findRun(at, len(run), s)
			at += len(run)
		} else if end = strings.Index(s, run); end >= 0 {
			end += len(run)
		}
		if end < 0 {
			return false
		}
		s = s[end:]
	}
	return true
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

// maxWords is the maximum number of words of a run within MaxRun, which can begin at any position of a word.
const maxWords = MaxRun/64 + 1

// findRun returns the end of the first match in s of the run with the given positions, or -1 if the run does not match.
// It is Shift-And (Baeza-Yates and Gonnet, "A new approach to text searching", 1992): a bit of state is set if the run
// up to this position matches the text that ends here.
func (g *glob) findRun(from, length int, s string) int {
	last := from + length - 1
	words := g.words[from/64 : last/64+1]
	var room [maxWords]uint64
	state := append(room[:0], make([]uint64, len(words))...)
	live := 0 // all later words of state are zero
	for at := range len(s) {
		c := s[at]
		p := pairs(c)
		var again uint64 // all ones if a ? continues with c
		if !utf8.RuneStart(c) {
			again = ^again
		}
		carry := uint64(1) << (from % 64)
		before := live
		live = 0
		for i := range words {
			if i >= before && carry == 0 {
				break
			}
			w, old := &words[i], state[i]
			now := (old<<1|carry)&w.masks[0][p[0]&3]&w.masks[1][p[1]&3]&w.masks[2][p[2]&3]&w.masks[3][p[3]&3] | old&w.any&again
			state[i], carry = now, old>>63
			if now != 0 {
				live = i + 1
			}
		}
		if state[len(words)-1]>>(last%64)&1 == 1 {
			return at + 1 // if continuation bytes follow, nothing matches them
		}
	}
	return -1
}
