package sample

import (
	"regexp/syntax"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/pattern"
)

// matchingString returns a string that matches the pattern. The string can depend on n. If it does not find a match, it
// returns false. A possible cause is that it ignores lookaround and back references.
func matchingString(text string, n int) (string, bool) {
	form, _, err := pattern.GoSyntax(text)
	if err != nil {
		return "", false
	}
	re, err := syntax.Parse(form, syntax.Perl)
	if err != nil {
		return "", false
	}
	g := &stringMaker{n: n}
	g.write(re.Simplify(), 0)
	s := g.String()
	return s, !g.failed && pattern.Matches(text, s)
}

type stringMaker struct {
	strings.Builder
	n      int
	failed bool
}

// maxText is the maximum length of a generated string in bytes.
const maxText = 4096

func (g *stringMaker) write(re *syntax.Regexp, depth int) {
	if g.Len() > maxText || depth > 200 {
		g.failed = true
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		g.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		g.WriteRune(chooseRune(re.Rune, g.n))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		g.WriteByte('a')
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			g.write(sub, depth+1)
		}
	case syntax.OpAlternate:
		g.write(re.Sub[g.n%len(re.Sub)], depth+1)
	case syntax.OpPlus:
		for range 1 + g.n {
			g.write(re.Sub[0], depth+1)
		}
	case syntax.OpStar:
		for range g.n {
			g.write(re.Sub[0], depth+1)
		}
	case syntax.OpQuest:
		if g.n > 0 {
			g.write(re.Sub[0], depth+1)
		}
	case syntax.OpRepeat:
		for range re.Min {
			g.write(re.Sub[0], depth+1)
		}
	case syntax.OpNoMatch:
		g.failed = true
	}
}

// chooseRune returns a rune from a character class, which is a list of ranges. It prefers letters and digits.
func chooseRune(ranges []rune, n int) rune {
	for _, wanted := range []string{"ABCDEFGH", "abcdefgh", "12345678"} {
		r := rune(wanted[n%len(wanted)])
		for i := 0; i+1 < len(ranges); i += 2 {
			if ranges[i] <= r && r <= ranges[i+1] {
				return r
			}
		}
	}
	if len(ranges) == 0 {
		return 'a'
	}
	return ranges[0]
}
