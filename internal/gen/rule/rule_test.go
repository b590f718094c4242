package rule_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

func TestLevel(t *testing.T) {
	r := rule.Rule{ID: "A", Category: "C", Severity: source.Warning}
	for _, c := range []struct {
		s     rule.Selection
		level source.Severity
		on    bool
	}{
		{rule.Selection{}, 0, false},
		{rule.Selection{Use: []string{"C"}}, source.Warning, true},
		{rule.Selection{Use: []string{"A"}}, source.Warning, true},
		{rule.Selection{Use: []string{"B"}}, 0, false},
		{rule.Selection{Use: []string{"C"}, Except: []string{"A"}}, 0, false},
		{rule.Selection{Use: []string{"C"}, Severity: map[string]source.Severity{"A": source.Error}}, source.Error, true},
	} {
		if level, on := c.s.Level(r); level != c.level || on != c.on {
			t.Errorf("%+v: %v %v", c.s, level, on)
		}
	}
}

func TestIgnores(t *testing.T) {
	r := rule.Rule{ID: "A", Category: "C"}
	for _, c := range []struct {
		i           rule.Ignore
		file, event string
		want        bool
	}{
		{rule.Ignore{Path: "a.yaml"}, "a.yaml", "x", true},
		{rule.Ignore{Path: "a.yaml"}, "b/a.yaml", "x", false},
		{rule.Ignore{Path: "b"}, "b/c/a.yaml", "x", true},
		{rule.Ignore{Path: "b/**/a.*"}, "b/c/d/a.yaml", "", true},
		{rule.Ignore{Dir: "b", Path: "a.yaml"}, "b/a.yaml", "", true},
		{rule.Ignore{Dir: "b", Path: "a.yaml"}, "a.yaml", "", false},
		{rule.Ignore{Event: "legacy.*"}, "a.yaml", "legacy.closed", true},
		{rule.Ignore{Event: "legacy.*"}, "a.yaml", "new.closed", false},
		{rule.Ignore{Event: "legacy.*"}, "a.yaml", "", false},
		{rule.Ignore{Event: "x", Path: "b.yaml"}, "a.yaml", "x", false},
		{rule.Ignore{Event: "x", Rules: []string{"A"}}, "a.yaml", "x", true},
		{rule.Ignore{Event: "x", Rules: []string{"C"}}, "a.yaml", "x", true},
		{rule.Ignore{Event: "x", Rules: []string{"B"}}, "a.yaml", "x", false},
	} {
		if got := (rule.Selection{Ignore: []rule.Ignore{c.i}}).Ignores(r, c.file, c.event); got != c.want {
			t.Errorf("%+v of %s %s: got %v", c.i, c.file, c.event, got)
		}
	}
}
