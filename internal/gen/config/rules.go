package config

import (
	"path"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/lint"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

// severities maps the values of lint.severity to severities.
var severities = map[string]source.Severity{"error": source.Error, "warning": source.Warning, "note": source.Note}

// readRules reads the lint and breaking sections.
func (l *loader) readRules(n *source.Node) {
	if s := n.Get("lint"); s != nil {
		if o := l.Object(s, "lint", nil, []string{"use", "except", "severity", "ignore"}); o != nil {
			known := vocabulary{lint.Categories, lint.Rules()}
			l.config.Lint = rule.Selection{
				Use:    l.readOptionalWords(o, "use", "a category or rule", known.words()),
				Except: l.readOptionalWords(o, "except", "a rule", known.ids()),
				Ignore: l.readIgnored(o, known),
			}
			l.readSeverity(s.Get("severity"), known)
		}
	}
	if s := n.Get("breaking"); s != nil {
		if o := l.Object(s, "breaking", nil, []string{"categories", "except", "ignore"}); o != nil {
			known := vocabulary{breaking.Categories, breaking.Rules()}
			l.config.Breaking = rule.Selection{
				Use:    l.readOptionalWords(o, "categories", "a category", breaking.Categories),
				Except: l.readOptionalWords(o, "except", "a rule", known.ids()),
				Ignore: l.readIgnored(o, known),
			}
		}
	}
}

// A vocabulary contains the valid rules and categories.
type vocabulary struct {
	categories []string
	rules      []rule.Rule
}

func (v vocabulary) ids() []string {
	ids := make([]string, len(v.rules))
	for i, r := range v.rules {
		ids[i] = r.ID
	}
	return ids
}

func (v vocabulary) words() []string { return slices.Concat(v.categories, v.ids()) }

// readOptionalWords reads an optional array of strings from the known list.
func (l *loader) readOptionalWords(o *source.ObjectReader, key, what string, known []string) []string {
	if o.Node.Get(key) == nil {
		return nil
	}
	return l.readWords(o, key, what, known)
}

func (l *loader) readSeverity(n *source.Node, known vocabulary) {
	if n == nil || !l.Is(n, source.Object, "severity") {
		return
	}
	l.config.Lint.Severity = map[string]source.Severity{}
	for _, m := range n.Members {
		if !slices.Contains(known.ids(), m.Key) {
			d := source.New("MCPE404", m.KeyRange, "there is no lint rule %q", m.Key)
			if near := suggest.Nearest(m.Key, known.ids()); near != "" {
				d = d.WithHint("did you mean %s?", near)
			}
			l.Report(d)
			continue
		}
		if l.Is(m.Value, source.String, "a severity") && l.Among(m.Value, "a severity", []string{"error", "warning", "note"}) {
			l.config.Lint.Severity[m.Key] = severities[m.Value.Text]
		}
	}
}

// readIgnored reads the ignore list, which excludes files and events from rules.
func (l *loader) readIgnored(o *source.ObjectReader, known vocabulary) []rule.Ignore {
	var list []rule.Ignore
	for _, n := range o.List("ignore") {
		e := l.Object(n, "an element of ignore", nil, []string{"path", "event", "rules"})
		if e == nil {
			continue
		}
		i := rule.Ignore{Dir: l.config.Dir, Rules: l.readOptionalWords(e, "rules", "a category or rule", known.words())}
		if text, at := e.Text("path"); at != nil && l.checkRelative(at, "path") && l.checkPattern(at) {
			i.Path = text
		}
		if text, at := e.Text("event"); at != nil {
			if _, err := path.Match(text, ""); err != nil || text == "" {
				l.Report(source.New("MCPE401", at.Range, "%q is not a glob pattern", text).WithHint("* matches within a name"))
			}
			i.Event = text
		}
		if n.Get("path") == nil && n.Get("event") == nil {
			l.Report(source.New("MCPE122", n.Range, "an element of ignore needs %q or %q", "path", "event").
				WithHint("rules that count nowhere belong to except"))
			continue
		}
		list = append(list, i)
	}
	return list
}
