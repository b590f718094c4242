package pattern_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/pattern"
)

// Each pattern needs another of the ways to compile one, and each way is one that a schema may rely on.
func TestCompile(t *testing.T) {
	for _, tc := range []struct {
		text, yes, no string
	}{
		{`^[a-z]+$`, "abc", "ABC"},
		{`^(?!x)`, "a", "x"},
		{`^(a)\1$`, "aa", "ab"},
		{`^\u0041$`, "A", "a"},
		{`^\u{1F600}$`, "😀", "u"},
		{`(?<=x)\p{Lu}`, "xA", "xa"},
		{`^\cJ$`, "\n", "J"},
	} {
		p, err := pattern.Compile(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		if !p.MatchString(tc.yes) || p.MatchString(tc.no) || p.String() != tc.text {
			t.Errorf("%s: matches %q %v, %q %v, is written %s", tc.text, tc.yes, p.MatchString(tc.yes), tc.no, p.MatchString(tc.no), p)
		}
	}
	for _, text := range []string{"(", "[", "*"} {
		if _, err := pattern.Compile(text); err == nil || pattern.Matches(text, text) {
			t.Errorf("%s compiles", text)
		}
	}
}

// A pattern that would backtrack for ages matches nothing after its timeout.
func TestTimeout(t *testing.T) {
	if pattern.Matches(`^(?=x)?(a+)+$`, strings.Repeat("a", 40)+"b") {
		t.Error("it matches")
	}
}

func ExampleCompile() {
	p, err := pattern.Compile(`^(?!internal-)[a-z-]+$`) // lookahead, which package regexp has not
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.MatchString("checkout"), p.MatchString("internal-billing"))
	// Output: true false
}
