package lint

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// Limits for the content of an event (SRV-7).
const (
	maxText   = 1000 // maximum length of a free text, in characters
	maxFields = 60
)

// freeTextWords lists the last words in the names of members that usually contain long text.
var freeTextWords = strings.Fields("body text content contents html markdown description message comment notes transcript diff patch log stacktrace snippet prompt completion")

func payloadFreeText(p *pass) {
	for _, s := range p.memberSites() {
		if s.side&payloadSide == 0 || !slices.Contains(freeTextWords, lastWord(s.property)) || !p.declaresType(s.node, "string") {
			continue
		}
		if p.findKeyword(s.node, "enum", "const", "format", "contentEncoding") != nil {
			continue
		}
		longest := p.findKeyword(s.node, "maxLength")
		if longest == nil {
			p.addFinding(s.at, s.event, "leave it to a link or a tool call, or bound it by maxLength", "field %q carries free text of any length in every occurrence", s.property)
		} else if n, err := strconv.ParseFloat(longest.Text, 64); err == nil && n > maxText {
			p.addFinding(s.at, s.event, "leave it to a link or a tool call", "field %q carries free text of up to %s characters in every occurrence", s.property, longest.Text)
		}
	}
}

func payloadBinary(p *pass) {
	for _, s := range p.valueSites() {
		if s.side&payloadSide != 0 && p.isEncoded(s.node) {
			p.addFinding(s.at, s.event, "carry a link or an ID and let who needs the data fetch it", "%s carries encoded data in every occurrence", s.label())
		}
	}
}

// isEncoded reports whether a value of n can be a string with encoded data.
func (p *pass) isEncoded(n *source.Node) bool {
	excludesText := func(view *source.Node) bool { return schematree.Declared(view)&schematree.String == 0 }
	return !slices.ContainsFunc(schematree.Views(p.set, n, schematree.Unconditional), excludesText) &&
		slices.ContainsFunc(p.set.Views(n), func(view *source.Node) bool {
			format := view.Get("format")
			return !excludesText(view) && (view.Get("contentEncoding") != nil || view.Get("contentMediaType") != nil ||
				format != nil && slices.Contains([]string{"byte", "binary", "base64"}, format.Text))
		})
}

func payloadSize(p *pass) {
	for _, e := range p.Events {
		left := maxVisits
		if n := p.countFields(e.Payload, map[*source.Node]bool{}, &left); n > maxFields {
			_, at := e.Payload.Key()
			p.addFinding(at, e, "carry what a receiver needs to decide, and an ID for the rest", "the payload of %s describes %d fields; %d are read easily", e.Name, n, maxFields)
		}
	}
}

// maxVisits limits the number of visits for counting fields. A schema can be reachable through many paths. After this
// number of visits, the count far exceeds maxFields.
const maxVisits = 2000

// countFields counts the members that a value of n can have, including members of nested objects.
func (p *pass) countFields(n *source.Node, within map[*source.Node]bool, left *int) int {
	if *left--; within[n] || *left < 0 {
		return 0
	}
	within[n] = true
	defer delete(within, n)
	total := 0
	for _, view := range p.set.Views(n) {
		p.set.Each(view, func(keyword, _ string, inner *source.Node) {
			if keyword == "properties" {
				total++
			}
			if k, _ := schematree.Any.Keyword(keyword); !k.InPlace && total <= maxFields {
				total += p.countFields(inner, within, left)
			}
		})
	}
	return total
}

func timeFormat(p *pass) {
	for _, s := range p.memberSites() {
		if last := lastWord(s.property); last != "at" && last != "timestamp" || p.findKeyword(s.node, "format", "enum", "const") != nil {
			continue
		}
		switch {
		case p.declaresType(s.node, "string"):
			p.addFinding(s.at, s.event, "add format: date-time", "%q is named like a time and is any string", s.property)
		case p.declaresType(s.node, "integer") || p.declaresType(s.node, "number"):
			p.addFinding(s.at, s.event, "use a string of format date-time: it needs neither a unit nor a separate time zone", "%q is named like a time and is a number", s.property)
		}
	}
}

func uriFormat(p *pass) {
	for _, s := range p.memberSites() {
		if last := lastWord(s.property); last != "url" && last != "uri" && last != "link" && last != "href" {
			continue
		}
		if p.declaresType(s.node, "string") && p.findKeyword(s.node, "format", "enum", "const", "pattern") == nil {
			p.addFinding(s.at, s.event, "add format: uri", "%q is named like a URL and is any string", s.property)
		}
	}
}

func requiredMissing(p *pass) {
	for _, s := range p.valueSites() {
		members := s.node.Get("properties")
		if s.side&payloadSide == 0 || members == nil || len(members.Members) == 0 || p.findKeyword(s.node, "required") != nil {
			continue
		}
		p.addFinding(s.at, s.event, "list what is always there under required", "every field of %s may be absent", s.objectLabel())
	}
}

// objectLabel returns the name of an object for use in messages.
func (s *site) objectLabel() string {
	if s.root && s.event != nil {
		return "the payload of " + s.event.Name
	}
	return s.label()
}

func idOptional(p *pass) {
	for _, s := range p.memberSites() {
		if s.side&payloadSide == 0 || !s.isID() || schema.Requires(p.set.Views(s.owner.node), s.property) {
			continue
		}
		// The list may be in a schema around allOf.
		if s.owner.inPlace || p.findKeyword(s.node, "const") != nil {
			continue
		}
		p.addFinding(s.at, s.event, "add it to required", "field %q identifies %s and may be absent", s.property, s.owner.objectLabel())
	}
}

// isID reports whether a property is the ID of its object. Examples are id, and incidentId in the payload of
// incident.created.
func (s *site) isID() bool {
	list := splitWords(s.property)
	if slices.Equal(list, []string{"id"}) || slices.Equal(list, []string{"uuid"}) {
		return true
	}
	if s.event == nil || !s.owner.root {
		return false
	}
	noun, _, _ := strings.Cut(s.event.Name, ".")
	return slices.Equal(list, append(splitWords(noun), "id"))
}
