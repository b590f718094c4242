package lint

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
)

var (
	eventForm  = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*(\.[a-z][a-z0-9]*(_[a-z0-9]+)*)*$`)
	upperCamel = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	lowerCamel = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)
	lowerSnake = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
)

// splitWords splits a name into words.
func splitWords(name string) []string {
	var out []string
	start := 0
	runes := []rune(name)
	cut := func(end int) {
		if end > start {
			out = append(out, strings.ToLower(string(runes[start:end])))
		}
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			cut(i)
			start = i + 1
		case i > start && unicode.IsUpper(r) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			cut(i)
			start = i
		}
	}
	cut(len(runes))
	return out
}

func lastWord(name string) string {
	if list := splitWords(name); len(list) > 0 {
		return list[len(list)-1]
	}
	return ""
}

func eventNameStyle(p *pass) {
	for _, e := range p.Events {
		if eventForm.MatchString(e.Name) {
			continue
		}
		var parts []string
		for part := range strings.SplitSeq(e.Name, ".") {
			parts = append(parts, strings.Join(splitWords(part), "_"))
		}
		hint := ""
		if better := strings.Join(parts, "."); eventForm.MatchString(better) {
			hint = "as in " + better
		}
		p.addFinding(e.NameRange, e, hint, "event name %q is not lower-case words joined by '_' and '.'", e.Name)
	}
}

// toolNameLong reports long names that an author chose. MCPE224 reports long default names.
func toolNameLong(p *pass) {
	check := func(at source.Range, e *schema.Event, name string) {
		if n := len(name); n > toolschema.MaxDefaultName {
			p.addFinding(at, e, "shorten it: clients prefix names, such as mcp__github__, and many refuse more than 64 characters",
				"the tool name %s has %d characters, more than %d", name, n, toolschema.MaxDefaultName)
		}
	}
	for _, e := range p.Events {
		if n := e.Node.Get("x-tool-name"); n != nil {
			check(n.Range, e, n.Text)
		}
	}
	for _, t := range p.Tasks {
		check(t.NameRange, nil, t.Name)
	}
}

// irregularPastForms lists past forms that do not end in -ed.
var irregularPastForms = strings.Fields(`became begun bought broken brought built burnt caught chosen cut done drawn driven fallen felt found
	frozen gone grown given heard held hidden hit hung kept known laid learnt led left lent lost made met opened overdue paid put
	quit read reset run said seen sent set shown shrunk shut sold spent split spun stolen stuck taken thrown told torn undone
	understood upset withdrawn won written`)

func eventNamePast(p *pass) {
	for _, e := range p.Events {
		verb := lastWord(e.Name)
		past := strings.HasSuffix(verb, "ed") || slices.Contains(irregularPastForms, verb)
		switch {
		case !strings.Contains(e.Name, "."):
			p.addFinding(e.NameRange, e, "as in incident.created", "event name %q is not a noun, a dot and a verb", e.Name)
		case !past:
			p.addFinding(e.NameRange, e, "say what happened, as in incident.created", "event name %q does not end in a verb in the past", e.Name)
		}
	}
}

func schemaNameStyle(p *pass) {
	for _, e := range p.Schemas {
		if !upperCamel.MatchString(e.Name) {
			p.addFinding(e.NameRange, nil, "as in "+camel(e.Name), "schema name %q is not in UpperCamelCase", e.Name)
		}
	}
}

func camel(name string) string {
	var b strings.Builder
	for _, w := range splitWords(name) {
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return b.String()
}

func propertyNameStyle(p *pass) {
	// A single word matches both styles. Names with several words determine the style of the file.
	camels, snakes := 0, 0
	for _, s := range p.memberSites() {
		switch {
		case strings.Contains(s.property, "_") && lowerSnake.MatchString(s.property):
			snakes++
		case lowerCamel.MatchString(s.property) && !lowerSnake.MatchString(s.property):
			camels++
		}
	}
	for _, s := range p.memberSites() {
		isCamel, isSnake := lowerCamel.MatchString(s.property), lowerSnake.MatchString(s.property)
		switch {
		case !isCamel && !isSnake:
			p.addFinding(s.at, s.event, "", "property name %q is neither in lowerCamelCase nor in snake_case", s.property)
		case !isSnake && snakes > camels:
			p.addFinding(s.at, s.event, "as in "+strings.Join(splitWords(s.property), "_"), "property name %q is in lowerCamelCase; the others of this file are in snake_case", s.property)
		case !isCamel && camels >= snakes:
			better := camel(s.property)
			p.addFinding(s.at, s.event, "as in "+strings.ToLower(better[:1])+better[1:], "property name %q is in snake_case; the others of this file are in lowerCamelCase", s.property)
		}
	}
}

// memberSites returns the sites that describe a member, without duplicates.
func (p *pass) memberSites() []*site {
	return slices.DeleteFunc(slices.Clone(p.sites), func(s *site) bool { return s.property == "" || s.inPlace })
}

// valueStyles lists the styles of enum values. All values of an enum should match the same style.
var valueStyles = []*regexp.Regexp{
	regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`),
	regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`),
	regexp.MustCompile(`^[a-z0-9]+(\.[a-z0-9_-]+)*$`),
	regexp.MustCompile(`^[A-Z0-9]+(_[A-Z0-9]+)*$`),
	regexp.MustCompile(`^[A-Z0-9]+(-[A-Z0-9]+)*$`),
	lowerCamel,
	upperCamel,
}

var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

func enumValueStyle(p *pass) {
	for _, s := range p.sites {
		list := s.node.Get("enum")
		if list == nil {
			continue
		}
		styles := valueStyles
		for _, v := range list.Items {
			if v.Kind != source.String || !word.MatchString(v.Text) {
				continue // a symbol, a phrase or a code
			}
			left := slices.DeleteFunc(slices.Clone(styles), func(style *regexp.Regexp) bool { return !style.MatchString(v.Text) })
			if len(left) == 0 {
				p.addFinding(v.Range, s.event, "an enum's values are constants that are read together", "enum value %q is written in another style than those before it", v.Text)
				break
			}
			styles = left
		}
	}
}
