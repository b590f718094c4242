package evolve

import (
	"regexp"
	"time"

	"github.com/dlclark/regexp2"
)

// patternTimeout bounds one match of a backtracking pattern.
const patternTimeout = 100 * time.Millisecond

// matches reports whether name contains a match of an ECMA-262 pattern; one that cannot be read
// matches nothing.
func matches(pattern, name string) bool {
	if re, err := regexp.Compile(pattern); err == nil {
		return re.MatchString(name)
	}
	re, err := regexp2.Compile(pattern, regexp2.ECMAScript)
	if err != nil {
		return false
	}
	re.MatchTimeout = patternTimeout
	found, err := re.MatchString(name)
	return found && err == nil
}
