package importer

import (
	"strconv"
	"strings"
)

// CleanName converts a name in a third-party document to a valid event name. Invalid characters become dots.
func CleanName(s string) string {
	if eventName.MatchString(s) {
		return s
	}
	s = strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '.' || r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') {
			return r
		}
		return '.'
	}, s)
	for strings.Contains(s, "..") {
		s = strings.ReplaceAll(s, "..", ".")
	}
	if s = strings.Trim(s, "."); len(s) > MaxName {
		s = strings.TrimRight(s[:MaxName], ".")
	}
	return s
}

// UniqueName returns base if taken does not contain it, or otherwise base with a separator and a number. It adds the name
// to taken.
func UniqueName(base, separator string, taken map[string]bool) string {
	name := base
	for i := 2; taken[name]; i++ {
		suffix := separator + strconv.Itoa(i)
		name = base[:min(len(base), MaxName-len(suffix))] + suffix
	}
	taken[name] = true
	return name
}

// MaxName is the maximum length of an event or schema name.
const MaxName = 128
