package suggest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

func TestNearest(t *testing.T) {
	words := []string{"description", "delivery", "op", "path", "$ref", "required"}
	for in, want := range map[string]string{
		"descripton": "description", "requried": "required", "ref": "$ref", "PATH": "path", "opp": "", "deliver": "delivery", "x": "", "unrelated": "",
	} {
		if got := suggest.Nearest(in, words); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

// HOST-3: the name that was meant comes first, then the nearest ones, and at most 20 in all.
func TestEventTypes(t *testing.T) {
	var many []string
	for i := range 25 {
		many = append(many, fmt.Sprintf("order.made.%02d", i))
	}
	for _, c := range []struct {
		word  string
		names []string
		want  string
	}{
		{"label_added", []string{"issue.opened", "label.removed", "label.added"}, `; did you mean "label.added"? the event types are label.added, label.removed, issue.opened`},
		{"LABEL.ADDED", []string{"abcde.fghij", "label.added"}, `; did you mean "label.added"? the event types are label.added, abcde.fghij`},
		{"x", []string{"b.made", "a.made"}, "; the event types are b.made, a.made"},
		{"x", nil, "; the list of event types is empty"},
		{"order.made.24", many, `; did you mean "order.made.24"? the event types are order.made.24, ` + strings.Join([]string{many[4], many[14], many[20]}, ", ")},
		{strings.Repeat("x", 1<<20), []string{strings.Repeat("y", 1<<20), "a"}, "; the event types are "},
	} {
		if got := suggest.EventTypes(c.word, c.names); !strings.HasPrefix(got, c.want) {
			t.Errorf("%.20s: %.200s", c.word, got)
		}
	}
	if got := suggest.EventTypes("x", many); !strings.HasSuffix(got, " and 5 more") || strings.Count(got, ", ") != 19 {
		t.Error(got)
	}
}
