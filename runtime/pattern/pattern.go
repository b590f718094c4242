// Package pattern compiles the regular expressions of JSON Schema, which are of ECMA-262. All who
// read one, the generator as the runtime, call [Compile], so that what generates also runs.
//
// The package makes no compatibility promise.
package pattern

import (
	"regexp"
	"time"

	"github.com/dlclark/regexp2"
)

// matchTimeout bounds one match of a pattern that backtracks. Its clock ticks every 100 ms.
const matchTimeout = 100 * time.Millisecond

// A Pattern is a compiled pattern, safe for concurrent use.
type Pattern interface {
	// MatchString reports whether s contains a match. A match that takes too long is none, so that
	// the value is refused.
	MatchString(s string) bool
	// String is the pattern as it was written.
	String() string
}

// Compile compiles an ECMA-262 pattern: with Go's engine, which runs in linear time, when it
// accepts the pattern; else with one that backtracks, knows lookaround, back references and \u
// escapes, and gives up after 100 ms. The error is that of reading it as ECMA-262.
func Compile(text string) (Pattern, error) {
	if linear, err := regexp.Compile(text); err == nil {
		return linear, nil
	}
	var first error
	for _, options := range []regexp2.RegexOptions{
		regexp2.ECMAScript | regexp2.Unicode, regexp2.ECMAScript, regexp2.None,
	} {
		re, err := regexp2.Compile(text, options)
		if err == nil {
			re.MatchTimeout = matchTimeout
			return backtracking{re}, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

type backtracking struct{ *regexp2.Regexp }

func (b backtracking) MatchString(s string) bool {
	ok, err := b.Regexp.MatchString(s)
	return ok && err == nil
}

// Matches reports whether s contains a match of the pattern; one that does not compile matches
// nothing.
func Matches(text, s string) bool {
	p, err := Compile(text)
	return err == nil && p.MatchString(s)
}
