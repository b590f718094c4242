package pattern_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/pattern"
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

// What other engines know and JavaScript with the u flag does not is an error. For mistakes that people make it says how
// ECMA-262 has it: the whole pattern, which compiles.
func TestRemedies(t *testing.T) {
	for text, want := range map[string]string{
		`(?i)foo`: `[Ff][Oo][Oo]`, `(?i:ab)c`: `(?:[Aa][Bb])c`, `(?i)[a-c]é`: `[a-cA-C][\u{C9}\u{E9}]`, `x(?i)y|z`: `x[Yy]|[Zz]`,
		`(x(?i)y)z`: `(x[Yy])z`, `(?i)a(?-i)b`: `[Aa]b`, `(?s)a.b`: `a[\s\S]b`, `(?is)a.`: `[Aa][\s\S]`,
		`\Afoo\z`: `^foo$`, `foo\Z`: `foo$`, `(?i)\Aa\-[b\_]`: `^[Aa]-[bB_]`,
		`a\-b`: `a-b`, `\_\@`: `_@`, `[\w-.]`: `[\w\-.]`, `[.-\d]`: `[.\-\d]`, `a{`: `a\{`, `a]`: `a\]`,
		`(?=a)*`: `(?:(?=a))*`,
	} {
		_, err := pattern.Compile(text)
		var fault *pattern.SyntaxError
		if !errors.As(err, &fault) || fault.Remedy != want {
			t.Errorf("%s: %v, wanted %s", text, err, want)
			continue
		}
		if _, err := pattern.Compile(want); err != nil {
			t.Errorf("the remedy of %s: %v", text, err)
		}
	}
	// Nothing of ECMA-262 says the same, it is not clear what is meant, or hardly anybody writes it.
	for _, text := range []string{`a++`, `(?>a)`, `(?(1)a|b)`, `[a-z&&[^b]]`, `\G`, `\y`, `(?x)a`, `(?m)^a`, `\1`, `\k<n>`, `[b-a]`, `a{2,1}`, `\u{110000}`, `\u00`, `\xg`,
		`(?<n>a)(?<n>b)`, `\p{Nothing}`, `x{,5}`, `[\p{L}--[a-z]]`, `\`, `a)`, `(?<1>a)`, strings.Repeat("(", 300),
		`(?P<y>a)`, `(?P=y)`, `(?'n'a)`, `(?<n>a)\k'n'`, `(a)\g1`, `(?#why)a`, `(*UTF)a`, `[[:alpha:]]`, `[^[:alpha:]-]`, `[]a]`, `[^]a]`, `\Qa\E`, `\a`, `[\e]`, `\x{41}`,
		`\012`, `[\1]`, `\pL`, `\p{^Lu}`, `\p{Greek}`, `\h`, `[\h]`, `\R`} {
		_, err := pattern.Compile(text)
		if fault := (*pattern.SyntaxError)(nil); !errors.As(err, &fault) || fault.Remedy != "" || fault.Reason == "" {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}

// The place is that of what is wrong, in code points.
func TestOffset(t *testing.T) {
	for text, want := range map[string]string{
		`é😀(?i)x`: `at character 3: (?i) sets flags within the pattern, which JavaScript engines do not know; write é😀[Xx]`,
		`ab(`:     `at character 3: the group ( is not closed`,
	} {
		if _, err := pattern.Compile(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, wanted %s", text, err, want)
		}
	}
}

// A pattern that would backtrack for ages matches nothing after its steps are used up, on a busy
// machine as on an idle one.
func TestSteps(t *testing.T) {
	for _, text := range []string{`^(?=a)(a+)+$`} {
		if pattern.Matches(text, strings.Repeat("a", 40)+"b") {
			t.Errorf("%s matches", text)
		}
	}
	if !pattern.Matches(`^(?!.*foo)[^]*bar$`, strings.Repeat("x", 1<<17)+"bar") {
		t.Error("a long text is not read to its end")
	}
}

func TestGoSyntax(t *testing.T) {
	for text, want := range map[string]bool{`^[a-c]{2}\d$`: true, `^(?!x)a`: false, `(a)\1`: false, `\p{Lu}`: true} {
		form, exact, err := pattern.GoSyntax(text)
		if err != nil || exact != want {
			t.Errorf("%s: %v, %v", text, exact, err)
		}
		if _, err := regexp.Compile(form); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, _, err := pattern.GoSyntax("("); err == nil {
		t.Error("a pattern that does not compile has a form")
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
