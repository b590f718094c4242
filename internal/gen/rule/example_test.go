package rule_test

import (
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

func ExampleSelection() {
	s := rule.Selection{
		Use:    []string{"STANDARD"},
		Ignore: []rule.Ignore{{Path: "events/legacy", Rules: []string{"EVENT_NAME_STYLE"}}},
	}
	r := rule.Rule{ID: "EVENT_NAME_STYLE", Category: "STANDARD", Severity: source.Error}
	level, on := s.Level(r)
	fmt.Println(level, on, s.Ignores(r, "events/legacy/old.yaml", "OldEvent"))
	// Output: error true true
}
