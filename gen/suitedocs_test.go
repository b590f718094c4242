package gen_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const suiteDocs = "../docs/json-schema.md"

// suiteReasons groups the lines of refused.txt by how their reasons begin.
var suiteReasons = []struct{ prefix, kind, text string }{
	{"MCPE132", "refused", "a dialect of the suite's own, or draft 2019-09"},
	{"MCPE136", "refused", "`$dynamicRef` and `$dynamicAnchor`: their meaning depends on the path of validation"},
	{"MCPE141", "refused", "a `$ref` to a `$dynamicAnchor`"},
	{"MCPE142", "refused", "a `$ref` to the metaschema"},
	{"MCPE143", "refused", "a `$ref` into a keyword that nobody knows, or into an example"},
	{"MCPE206", "refused", "two members that become one Go name; `x-go-name` settles it"},
	{"MCPE215", "refused", "a schema that no value satisfies"},
	{"MCPE130 enum is empty", "refused", "an `enum` without values"},
	{"valid is true, but: /v: is not valid base64", "judged otherwise", "base64 is asserted; the suite takes it for an annotation"},
	{"valid is true, but: /v: is no", "judged otherwise", "formats are asserted; the suite's main part takes them for annotations"},
	{"valid is false, but: <nil>", "judged otherwise", "`contentMediaType` is not asserted"},
	{"the Go type", "not held", "numbers beyond int64 or the precision of float64; `x-go-type: encoding/json.Number` or `math/big.Int` holds them"},
}

// The table in the documentation says how many differences of which reason there are; every line of
// refused.txt has one of the reasons.
func TestSuiteTable(t *testing.T) {
	content, err := os.ReadFile(refusedFile)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([][2]int, len(suiteReasons))
	for line := range strings.Lines(string(content)) {
		key, reason, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " => ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		found := false
		for i, r := range suiteReasons {
			if found = strings.HasPrefix(reason, r.prefix); found {
				if strings.HasPrefix(key, "draft2020-12/") {
					counts[i][0]++
				} else {
					counts[i][1]++
				}
				break
			}
		}
		if !found {
			t.Errorf("the reason of %s is none of the known ones: %s", key, reason)
		}
	}
	var table strings.Builder
	table.WriteString("| | 2020-12 | draft-07 | why |\n|---|---|---|---|\n")
	for i, r := range suiteReasons {
		fmt.Fprintf(&table, "| %s | %d | %d | %s |\n", r.kind, counts[i][0], counts[i][1], r.text)
	}
	text, err := os.ReadFile(suiteDocs)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- differences -->\n", "<!-- end of differences -->"
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", suiteDocs)
	}
	if *update {
		if err := os.WriteFile(suiteDocs, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if old != table.String() {
		t.Errorf("the table of %s is not current (go test ./gen -run TestSuiteTable -update writes it):\n%s", suiteDocs, table.String())
	}
}
