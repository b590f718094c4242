package config

import (
	"path"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// severities maps the values of lint.severity to severities.
var severities = map[string]source.Severity{"error": source.Error, "warning": source.Warning, "note": source.Note}

// readRules reads the lint and breaking sections.
func (l *loader) readRules(n *source.Node) {
	l.config.Lint = l.readSelection(n.Get("lint"), "use")
	l.config.Breaking = l.readSelection(n.Get("breaking"), "categories")
	for _, m := range n.Get("lint").Words("severity") {
		if l.config.Lint.Severity == nil {
			l.config.Lint.Severity = map[string]source.Severity{}
		}
		l.config.Lint.Severity[m.Key] = severities[m.Value.Text]
	}
}

// readSelection reads the rules that a section selects. use is the key of the categories.
func (l *loader) readSelection(n *source.Node, use string) rule.Selection {
	s := rule.Selection{Use: n.Texts(use), Except: n.Texts("except")}
	for _, e := range n.ItemsOf("ignore", source.Object) {
		if at := e.Get("path"); at != nil {
			l.checkPattern(at)
		}
		if at := e.Get("event"); at != nil {
			if _, err := path.Match(at.Text, ""); err != nil {
				l.ReportOnce(source.New("MCPE401", at.Range, "%q is not a glob pattern", at.Text).WithHint("* matches within a name"))
			}
		}
		s.Ignore = append(s.Ignore, rule.Ignore{Dir: l.config.Dir, Path: e.Word("path"), Event: e.Word("event"), Rules: e.Texts("rules"), Range: e.Range})
	}
	return s
}
