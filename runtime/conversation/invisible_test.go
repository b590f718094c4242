package conversation

import (
	"strings"
	"testing"
)

// CONV-6: a contribution cannot hide text in invisible characters or under a stack of marks.
func TestInvisibleCharactersAreDropped(t *testing.T) {
	for in, want := range map[string]string{
		"a\ufe00b\U000e0101c\u034fd":                   "abcd",
		"a\u115fb\u3164c\uffa0d\u2800e":                "abcde",
		"a\u17b4b\u180bc\U000e0041d\u202ee\u2066f":     "abcdef",
		"e" + strings.Repeat("\u0301", 30) + "x":       "e\u0301\u0301\u0301\u0301x",
		"e" + strings.Repeat("\u0301\u200d", 30) + "x": "e\u0301\u0301\u0301\u0301x",
		"日本 é o\u0302\u0301 ไทย\tx\ny":                 "日本 é o\u0302\u0301 ไทย\tx\ny",
	} {
		if got, _ := escape(in, 1000); got != want {
			t.Errorf("%+q: %+q, want %+q", in, got, want)
		}
	}
}
