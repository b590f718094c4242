package source_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Comments are told from what looks like them within texts, and have exact places.
func TestComments(t *testing.T) {
	const file = `# first
a: "b # no" # second
c#d: e#f   # thïrd
block: |
  # no
  text
list: [x, # fourth
  'y # no']
plain: one
  two # fifth
anchor: &a {k: v} # sixth
alias: *a # seventh
url: http://x/#no
`
	n, found := source.Parse("f.yaml", []byte(file))
	if len(found) > 0 {
		t.Fatal(found)
	}
	var got []string
	for _, c := range source.Comments(n, []byte(file)) {
		got = append(got, fmt.Sprintf("%s-%d %s %v", c.Range, c.Range.End.Column, c.Text, c.Alone))
	}
	want := `f.yaml:1:1-8 first true
f.yaml:2:13-21 second false
f.yaml:3:12-19 thïrd false
f.yaml:7:11-19 fourth false
f.yaml:10:7-14 fifth false
f.yaml:11:19-26 sixth false
f.yaml:12:11-20 seventh false`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	n, _ = source.Parse("f.json", []byte(`{"a": "x # y"}`))
	if got := source.Comments(n, []byte(`{"a": "x # y"}`)); len(got) > 0 {
		t.Error(got)
	}
}
