package importer

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
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

// UniqueName returns [source.ShortUniqueName] of at most MaxName bytes.
func UniqueName(base, separator string, taken map[string]bool) string {
	return source.ShortUniqueName(base, separator, MaxName, taken)
}

// MaxName is the maximum length of an event or schema name.
const MaxName = 128
