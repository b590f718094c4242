package lint

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

var placeholder = regexp.MustCompile(`(?i)^(todo|tbd|fixme|description|n/?a|\.+|-+)\W*$`)

func eventDescription(p *pass) {
	for _, e := range p.Events {
		at := e.NameRange
		if d := e.Node.Get("description"); d != nil {
			at = d.Range
		}
		text := strings.TrimSpace(e.Description)
		switch {
		case text == "" || placeholder.MatchString(text):
			p.addFinding(at, e, "say when the event fires", "the description of %s says nothing", e.Name)
		case slices.Equal(splitWords(text), splitWords(e.Name)):
			p.addFinding(at, e, "say when the event fires", "the description of %s repeats its name", e.Name)
		}
	}
}

var provisional = regexp.MustCompile(`(?i)experimental|may (still )?change|preview|beta|alpha|unstable|provisional|draft`)

func experimentalNote(p *pass) {
	for _, e := range p.Events {
		if e.Stability == "experimental" && !provisional.MatchString(e.Description) {
			p.addFinding(e.Node.Get("description").Range, e, "add for example: its shape may still change", "the description of %s does not say that it is experimental", e.Name)
		}
	}
}

func deprecatedReplacement(p *pass) {
	var names []string
	for _, f := range p.set.Files {
		for _, e := range f.Events {
			names = append(names, e.Name)
		}
	}
	for _, e := range p.Events {
		if e.Deprecated == nil {
			continue
		}
		_, at := e.Node.Get("deprecated").Key()
		by := e.Node.Get("deprecated").Get("replacedBy")
		switch {
		case by == nil:
			p.addFinding(at, e, "deprecated: {replacedBy: NAME, removeAfter: DATE}", "%s is deprecated and names no event to use instead", e.Name)
		case by.Text == e.Name:
			p.addFinding(by.Range, e, "", "%s is replaced by itself", e.Name)
		case !slices.Contains(names, by.Text):
			hint := ""
			if near := suggest.Nearest(by.Text, names); near != "" {
				hint = "did you mean " + near + "?"
			}
			p.addFinding(by.Range, e, hint, "%s is replaced by %q, which none of the files describes", e.Name, by.Text)
		}
	}
}

func deprecatedOverdue(p *pass) {
	for _, e := range p.Events {
		if e.Deprecated == nil || e.Deprecated.RemoveAfter == "" {
			continue
		}
		if date, err := time.Parse(time.DateOnly, e.Deprecated.RemoveAfter); err == nil && p.now.After(date.AddDate(0, 0, 1)) {
			p.addFinding(e.Node.Get("deprecated").Get("removeAfter").Range, e, "remove the event, or announce a later date", "%s was to be removed after %s", e.Name, e.Deprecated.RemoveAfter)
		}
	}
}

func argumentDescription(p *pass) {
	for _, s := range p.memberSites() {
		if s.argument && p.findKeyword(s.node, "description", "title") == nil {
			p.addFinding(s.at, s.event, "add a description", "argument %q is not described", s.property)
		}
	}
}

func propertyDescription(p *pass) {
	for _, s := range p.memberSites() {
		if s.side&payloadSide != 0 && p.findKeyword(s.node, "description", "title", "const") == nil {
			p.addFinding(s.at, s.event, "add a description", "field %q is not described", s.property)
		}
	}
}

func descriptionPeriod(p *pass) {
	check := func(s *site, d *source.Node) {
		text := ""
		if d != nil && d.Kind == source.String {
			text = strings.TrimSpace(d.Text)
		}
		if text != "" && !strings.ContainsAny(text[len(text)-1:], ".!?:)`") {
			p.addFinding(d.Range, s.event, "end it with a period", "the description does not end like a sentence")
		}
	}
	for _, e := range p.Events {
		check(&site{event: e}, e.Node.Get("description"))
	}
	for _, s := range p.sites {
		check(s, s.node.Get("description"))
	}
}
