// Package pattern compiles the regular expressions of JSON Schema, which are those of ECMA-262. The
// generator and the runtime both call [Compile], so that a pattern that generates also runs.
//
// A pattern is read as JavaScript reads it with the u flag, which JSON Schema recommends and its
// validators set: by code points, and without the leniency of Annex B (\- outside a class, a lone
// brace). Parsing has its own grammar; matching is left to Go's engine, which runs in linear time,
// wherever a pattern can be said in its syntax without a change of meaning. Lookaround, back
// references and repetitions beyond Go's bounds run on a machine of this package that backtracks as
// ECMA-262 says, within a bound of steps.
//
// Start reading at [Compile]; parse.go holds the grammar, foreign.go what other engines know and
// JavaScript does not, linear.go and program.go the two ways to match.
package pattern

import (
	"fmt"
	"regexp"
)

// A Pattern is a compiled pattern, safe for concurrent use.
type Pattern interface {
	// MatchString reports whether s contains a match. A match that takes too many steps is none, so
	// that the value is refused.
	MatchString(s string) bool
	// String is the pattern as it was written.
	String() string
}

// A SyntaxError says why a pattern is not one of ECMA-262 with the u flag.
type SyntaxError struct {
	// Offset is where the fault begins, in code points from 0.
	Offset int
	// Reason says what is wrong there.
	Reason string
	// Remedy is the whole pattern as ECMA-262 has it, empty where there is no such form.
	Remedy string
}

// Error gives the place, counted from 1, the reason and the remedy.
func (e *SyntaxError) Error() string {
	s := fmt.Sprintf("at character %d: %s", e.Offset+1, e.Reason)
	if e.Remedy != "" {
		s += "; write " + e.Remedy
	}
	return s
}

// Compile compiles a pattern of ECMA-262, read with the u flag. The error is a [*SyntaxError].
func Compile(text string) (Pattern, error) {
	tree, err := parse(text)
	if err != nil {
		return nil, err
	}
	if form, exact := linearForm(tree.root); exact {
		if re, err := regexp.Compile(form); err == nil {
			return linear{re, text}, nil
		}
	}
	return assemble(tree, text), nil
}

// linear is a pattern that Go's engine matches.
type linear struct {
	re   *regexp.Regexp
	text string
}

func (l linear) MatchString(s string) bool { return l.re.MatchString(s) }
func (l linear) String() string            { return l.text }

// Matches reports whether s contains a match of the pattern; one that does not compile matches
// nothing.
func Matches(text, s string) bool {
	p, err := Compile(text)
	return err == nil && p.MatchString(s)
}

// GoSyntax returns the pattern in the syntax of package regexp. It is not exact when the pattern
// has lookaround or back references, which are left out of it.
func GoSyntax(text string) (form string, exact bool, err error) {
	tree, err := parse(text)
	if err != nil {
		return "", false, err
	}
	form, exact = linearForm(tree.root)
	return form, exact, nil
}
