// Package pattern compiles the regular expressions of JSON Schema, which follow ECMA-262. Both the generator and the
// runtime call [Compile], so they accept the same patterns.
//
// The package interprets a pattern as JavaScript does with the u flag, which JSON Schema recommends and its validators
// set. Such a pattern matches code points and cannot use the lenient syntax of Annex B (\- outside a class, an
// unmatched brace). The package has its own parser. Go's engine, which runs in linear time, executes every pattern that
// its syntax can express exactly. Patterns with lookaround, back references or repetitions beyond Go's limits run on a
// backtracking machine in this package. The machine follows ECMA-262 and has a step limit.
//
// Start with [Compile]. parse.go contains the grammar, foreign.go the syntax of other engines, and linear.go and
// program.go the two engines.
package pattern

import (
	"fmt"
	"regexp"
)

// A Pattern is a compiled pattern. It is safe for concurrent use.
type Pattern interface {
	// MatchString reports whether s contains a match. If matching takes too many steps, it returns false, so the value
	// is rejected.
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
	// Remedy is the whole pattern in ECMA-262 syntax, or empty if it has no equivalent.
	Remedy string
}

// Error returns the position, counted from 1, the reason and the remedy.
func (e *SyntaxError) Error() string {
	s := fmt.Sprintf("at character %d: %s", e.Offset+1, e.Reason)
	if e.Remedy != "" {
		s += "; write " + e.Remedy
	}
	return s
}

// Compile compiles an ECMA-262 pattern with the u flag. The error is a [*SyntaxError].
func Compile(text string) (Pattern, error) {
	tree, err := parse(text)
	if err != nil {
		return nil, err
	}
	if form, exact := linearForm(tree.root); exact {
		if re, err := regexp.Compile(form); err == nil {
			return linearPattern{re, text}, nil
		}
	}
	return assemble(tree, text), nil
}

// A linearPattern is a pattern that Go's engine executes.
type linearPattern struct {
	re   *regexp.Regexp
	text string
}

func (l linearPattern) MatchString(s string) bool { return l.re.MatchString(s) }
func (l linearPattern) String() string            { return l.text }

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
