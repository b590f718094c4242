package importer

import "strings"

// CleanName is a name that an event file can hold, made of what a document calls an event: other
// characters become dots.
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

// MaxName is how long the name of an event or of a schema may be.
const MaxName = 128
