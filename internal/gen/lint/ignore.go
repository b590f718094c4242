package lint

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

// directive is the prefix of comments that suppress a rule.
const directive = "mcpe:ignore"

// An exception is a comment that suppresses a rule.
type exception struct {
	rule string
	at   source.Range
	line int // line that it applies to
	used bool
}

// suppress removes findings suppressed by comments, and adds findings about invalid or unused comments.
func suppress(set *schema.Set, found []finding, o Options) []source.Diagnostic {
	var out []source.Diagnostic
	exceptions := map[string][]*exception{}
	for _, f := range set.Files {
		if content, err := o.ReadFile(f.Path); err == nil {
			list, faults := exceptionsOf(f.Root, content)
			exceptions[f.Path] = list
			out = append(out, faults...)
		}
	}
	for _, d := range found {
		ignored := false
		for _, e := range exceptions[d.Range.Start.File] {
			if e.rule == d.Code && e.line == d.Range.Start.Line {
				e.used, ignored = true, true
			}
		}
		if !ignored {
			out = append(out, d.Diagnostic)
		}
	}
	for _, f := range set.Files {
		for _, e := range exceptions[f.Path] {
			i := slices.IndexFunc(table, func(t entry) bool { return t.ID == e.rule })
			if _, on := o.Rules.Level(table[i].Rule); on && !e.used {
				out = append(out, source.New("MCPE552", e.at, "nothing on the line violates %s", e.rule).WithHint("remove the comment"))
			}
		}
	}
	return out
}

// exceptionsOf parses the comments of a file. It returns the exceptions and the findings about invalid comments.
func exceptionsOf(root *source.Node, content []byte) ([]*exception, []source.Diagnostic) {
	var list []*exception
	var faults []source.Diagnostic
	comments := source.Comments(root, content)
	ids := rule.IDs(Rules())
	alone := map[int]bool{}
	for _, c := range comments {
		alone[c.Range.Start.Line] = c.Alone
	}
	for _, c := range comments {
		rest, ok := strings.CutPrefix(c.Text, directive)
		if !ok || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
			continue
		}
		words := strings.Fields(rest)
		switch {
		case len(words) == 0:
			faults = append(faults, source.New("MCPE550", c.Range, "the comment names no rule").WithHint("write # %s RULE reason", directive))
			continue
		case !slices.Contains(ids, words[0]):
			faults = append(faults, unknownRule(c.Range, words[0], ids))
			continue
		case len(words) == 1:
			faults = append(faults, source.New("MCPE550", c.Range, "the comment gives no reason to ignore %s", words[0]).
				WithHint("write # %s %s and why", directive, words[0]))
			continue
		}
		line := c.Range.Start.Line
		for alone[line] {
			line++
		}
		list = append(list, &exception{rule: words[0], at: c.Range, line: line})
	}
	return list, faults
}

func unknownRule(at source.Range, id string, ids []string) source.Diagnostic {
	d := source.New("MCPE551", at, "unknown rule %q", id)
	if near := suggest.Nearest(id, ids); near != "" {
		return d.WithHint("did you mean %s?", near)
	}
	return d.WithHint("mcpe-gen rules lists all")
}

// An entry is a rule with its check function.
type entry struct {
	rule.Rule
	check func(*pass)
}
