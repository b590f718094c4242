package config

import (
	"path"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/lint"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// severities maps the words of lint.severity.
var severities = map[string]source.Severity{"error": source.Error, "warning": source.Warning, "note": source.Note}

// rules reads the lint and breaking sections.
func (l *loader) rules(n *source.Node) {
	if s := n.Get("lint"); s != nil {
		if o := l.Object(s, "lint", nil, []string{"use", "except", "severity", "ignore"}); o != nil {
			known := vocabulary{lint.Categories, lint.Rules()}
			l.config.Lint = rule.Selection{
				Use:    l.listed(o, "use", "a category or rule", known.words()),
				Except: l.listed(o, "except", "a rule", known.ids()),
				Ignore: l.ignored(o, known),
			}
			l.severity(s.Get("severity"), known)
		}
	}
	if s := n.Get("breaking"); s != nil {
		if o := l.Object(s, "breaking", nil, []string{"categories", "except", "ignore"}); o != nil {
			known := vocabulary{breaking.Categories, breaking.Rules()}
			l.config.Breaking = rule.Selection{
				Use:    l.listed(o, "categories", "a category", breaking.Categories),
				Except: l.listed(o, "except", "a rule", known.ids()),
				Ignore: l.ignored(o, known),
			}
		}
	}
}

// A vocabulary holds the names of rules and categories.
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

// listed reads an optional array of known words.
func (l *loader) listed(o *source.ObjectReader, key, what string, known []string) []string {
	if o.Node.Get(key) == nil {
		return nil
	}
	return l.words(o, key, what, known)
}

func (l *loader) severity(n *source.Node, known vocabulary) {
	if n == nil || !l.Is(n, source.Object, "severity") {
		return
	}
	l.config.Lint.Severity = map[string]source.Severity{}
	for _, m := range n.Members {
		if !slices.Contains(known.ids(), m.Key) {
			d := source.New("MCPE404", m.KeyRange, "there is no lint rule %q", m.Key)
			if near := source.Suggest(m.Key, known.ids()); near != "" {
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

// ignored reads the places where rules do not apply.
func (l *loader) ignored(o *source.ObjectReader, known vocabulary) []rule.Ignore {
	var list []rule.Ignore
	for _, n := range o.List("ignore") {
		e := l.Object(n, "an element of ignore", nil, []string{"path", "event", "rules"})
		if e == nil {
			continue
		}
		i := rule.Ignore{Dir: l.config.Dir, Rules: l.listed(e, "rules", "a category or rule", known.words())}
		if text, at := e.Text("path"); at != nil && l.relative(at, "path") && l.pattern(at) {
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
