package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
)

// Ten shapes are reported, those whose copies cost most; an inner object of a copy is no further place.
func TestTenLargestShapes(t *testing.T) {
	var members []string
	for i := range 12 {
		fields := "x: {type: object, properties: {a: {type: string}, b: {type: string}, c: {type: string}}}"
		for j := range i + 50 {
			fields += fmt.Sprintf(", m%d: {type: string}", j)
		}
		for _, name := range []string{"one", "two"} {
			members = append(members, fmt.Sprintf("        %s%d: {type: object, properties: {%s}}", name, i, fields))
		}
	}
	found := check(t, []byte(`version: 1
events:
  - name: issue.closed
    description: Fires when an issue is closed.
    inputSchema: {type: object, additionalProperties: false}
    payloadSchema:
      type: object
      properties:
`+strings.Join(members, "\n")+`
`), rule.Selection{Use: []string{"SHAPE_REPEATED"}})
	inner, outer := 0, 0
	for _, d := range found {
		if strings.Contains(d.Message, "is in 12 places") {
			inner++
		} else if strings.Contains(d.Message, "is in 2 places") && d.Range.Start.Line >= 9+2*3 {
			outer++
		}
	}
	if inner != 1 || outer != 9 || len(found) != 10 {
		t.Error(text(found))
	}
}
