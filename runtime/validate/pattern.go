package validate

import (
	"regexp"
	"time"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// matchTimeout bounds one match of a pattern that backtracks. Its clock ticks every 100 ms.
const matchTimeout = 100 * time.Millisecond

// compilePattern compiles an ECMA-262 pattern: with Go's engine, which runs in linear time, when it
// accepts the pattern; else with one that backtracks, knows lookaround, back references and \u
// escapes, and gives up after matchTimeout.
func compilePattern(pattern string) (jsonschema.Regexp, error) {
	linear, err := regexp.Compile(pattern)
	if err == nil {
		return linear, nil
	}
	for _, options := range []regexp2.RegexOptions{
		regexp2.ECMAScript, regexp2.ECMAScript | regexp2.Unicode, regexp2.None,
	} {
		if re, ecmaErr := regexp2.Compile(pattern, options); ecmaErr == nil {
			re.MatchTimeout = matchTimeout
			return backtracking{re}, nil
		}
	}
	return nil, err
}

type backtracking struct{ *regexp2.Regexp }

// MatchString reports a match; a match that takes too long is none, so that the value is refused.
func (b backtracking) MatchString(s string) bool {
	ok, err := b.Regexp.MatchString(s)
	return ok && err == nil
}
