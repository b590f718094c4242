package pattern

import (
	"bufio"
	"encoding/json"
	"os"
	"regexp"
	"testing"
)

// FuzzCompile compiles arbitrary text: nothing panics, a remedy compiles, and where Go's engine can
// match a pattern the machine of this package says the same. The seeds are the recorded patterns.
func FuzzCompile(f *testing.F) {
	file, err := os.Open("testdata/verdicts.json")
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for i := 0; lines.Scan(); i++ {
		var line []json.RawMessage
		var text string
		if i%5 != 1 || json.Unmarshal(lines.Bytes(), &line) != nil || json.Unmarshal(line[0], &text) != nil {
			continue
		}
		for _, s := range []string{"", "aab a\nb", "abc-1_2é😀 Ω\r"} {
			f.Add(text, s)
		}
	}
	f.Fuzz(func(t *testing.T, text, s string) {
		if len(text) > 200 || len(s) > 200 {
			return
		}
		tree, err := parse(text)
		if err != nil {
			fault, ok := err.(*SyntaxError)
			if !ok || fault.Reason == "" || fault.Offset > len(text) {
				t.Fatalf("%q: %#v", text, err)
			}
			if fault.Remedy != "" {
				if _, err := parse(fault.Remedy); err != nil {
					t.Errorf("%q: the remedy %q: %v", text, fault.Remedy, err)
				}
			}
			return
		}
		form, exact := linearForm(tree.root)
		re, err := regexp.Compile(form)
		if !exact || err != nil {
			assemble(tree, text).MatchString(s)
			return
		}
		m := &machine{p: assemble(tree, text)}
		if got, want := m.match(s), re.MatchString(s); got != want && m.steps < maxSteps {
			t.Errorf("%q on %q: the machine says %v, Go's engine %v", text, s, got, want)
		}
	})
}
