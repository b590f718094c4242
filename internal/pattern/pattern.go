// Package pattern compiles the regular expressions of JSON Schema, which follow ECMA-262. Both the generator and the
// runtime call [Compile], so a pattern that generates also runs.
//
// The package reads a pattern as JavaScript does with the u flag, which JSON Schema recommends and its validators
// set: by code points, and without the leniency of Annex B (\- outside a class, an unmatched brace). The package has
// its own parser. Go's engine, which runs in linear time, matches every pattern that its syntax can express exactly.
// Lookaround, back references and repetitions beyond Go's limits run on a backtracking machine of this package that
// follows ECMA-262, with a limit on steps.
//
// Start with [Compile]. parse.go has the grammar, foreign.go the syntax of other engines, and linear.go and
// program.go the two ways to match.
package pattern

import (
	"fmt"
	"regexp"
)

// A Pattern is a compiled pattern, safe for concurrent use.
type Pattern interface {
	// MatchString reports whether s contains a match. A match with too many steps counts as a failure, so the value is
	// rejected.
	MatchString(s string) bool
	// String returns the source text of the pattern.
	String() string
}

// A SyntaxError describes why a pattern does not follow ECMA-262 with the u flag.
type SyntaxError struct {
	// Offset is the start of the fault, in code points from 0.
	Offset int
	// Reason describes the fault.
	Reason string
	// Remedy is the whole pattern in ECMA-262 syntax, empty without an equivalent.
	Remedy string
}

// Error returns the place, counted from 1, the reason and the remedy.
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

// Matches reports whether s contains a match of the pattern. An invalid pattern matches nothing.
func Matches(text, s string) bool {
	p, err := Compile(text)
	return err == nil && p.MatchString(s)
}

// GoSyntax returns the pattern in the syntax of package regexp. If the pattern has lookaround or back references, the
// result omits them and is not exact.
func GoSyntax(text string) (form string, exact bool, err error) {
	tree, err := parse(text)
	if err != nil {
		return "", false, err
	}
	form, exact = linearForm(tree.root)
	return form, exact, nil
}
