package starter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// GitHub's bodies have up to a thousand members, most of them URLs of its API. Of each object only these are kept:
// what it is, where, in which state, since when.
var (
	kept = []string{"id", "number", "name", "full_name", "login", "title", "state", "status", "conclusion",
		"environment", "draft", "merged", "prerelease", "tag_name", "ref", "sha", "head_branch", "head_sha", "html_url",
		"created_at", "updated_at", "closed_at", "merged_at", "published_at"}
	// within are the objects inside such an object, of which less is kept.
	within = []string{"user", "author", "base", "head", "labels"}
	inner  = []string{"login", "name", "ref"}
	// parties are in nearly every body; only their names are kept, and their kin not at all.
	parties = map[string][]string{"repository": {"full_name", "html_url"}, "organization": {"login"}, "sender": {"login"}}
	strange = []string{"installation", "enterprise", "changes"}
	// identifying are the members that say which thing an object is. GitHub's schemas require and forbid null of many
	// others that GitHub leaves out or sends as null, so that only these are required, and what the event is about.
	identifying = []string{"id", "full_name", "login", "action", "ref", "sha"}
	// prose is text of any length, for which there is a link.
	prose = []string{"body", "comment", "description", "message"}
)

// A projector writes the part of a body's schema that is kept.
type projector struct {
	event       string
	definitions *source.Node
	out         *strings.Builder
}

// project writes the event type of a webhook: the body is the payload.
func project(p provider.Provider, event, action string, body *source.Node) string {
	var b strings.Builder
	name, from := event, "{provider: "+p.Name+", event: "+event+"}"
	description := "GitHub's webhook " + event + "."
	if action != "" {
		name, from = event+"."+action, "{provider: "+p.Name+", event: "+event+", action: "+action+"}"
		description = "GitHub's webhook " + event + ", action " + action + "."
	}
	w := &projector{event: event, definitions: body.Get("definitions"), out: &b}
	top := w.views(body)
	fmt.Fprintf(&b, "  - name: %s\n    description: %s\n    from: %s\n    inputSchema:\n", name, description, from)
	w.arguments(top, action == "" && len(p.ActionsOf(event)) > 0)
	b.WriteString("    payloadSchema:\n")
	w.object(top, "      ", func(member string, views []*source.Node) []string {
		switch {
		case parties[member] != nil:
			return parties[member]
		case slices.Contains(strange, member):
			return nil
		case w.kind(views) == "array" || w.kind(views) == "string" && slices.Contains(prose, member):
			return nil
		}
		return kept
	}, p.ActionsOf(event))
	return b.String()
}

// arguments are the filters that the payload has places for.
func (w *projector) arguments(top []*source.Node, actions bool) {
	var lines []string
	if w.member(w.property(top, "repository"), "full_name") {
		lines = append(lines, "repository: {type: string, description: 'Only this repository, as in octocat/hello.', "+
			"x-match: /repository/full_name}")
	}
	if actions {
		lines = append(lines, "action: {type: string, description: Only this action., x-match: /action}")
	}
	if w.kind(w.property(top, "ref")) == "string" {
		lines = append(lines, "ref: {type: string, description: 'Only such refs, as in refs/heads/*.', "+
			"x-match: {path: /ref, op: glob}}")
	}
	w.out.WriteString("      type: object\n")
	if len(lines) > 0 {
		w.out.WriteString("      properties:\n")
	}
	for _, l := range lines {
		w.out.WriteString("        " + l + "\n")
	}
	w.out.WriteString("      additionalProperties: false\n")
}

func (w *projector) member(views []*source.Node, name string) bool {
	return len(w.property(views, name)) > 0
}

// A choice says which members are kept of a member that is an object, nil for leaving it out.
type choice func(member string, views []*source.Node) []string

// object writes an object schema with the members of which anything is kept.
func (w *projector) object(views []*source.Node, margin string, choose choice, actions []string) {
	w.out.WriteString(margin + "type: object\n" + margin + "properties:\n")
	var names []string
	for _, name := range w.members(views) {
		if choose(name, w.property(views, name)) != nil {
			names = append(names, name)
		}
	}
	certain := w.certain(views, names)
	var required []string
	for _, name := range names {
		of, sure := w.property(views, name), slices.Contains(certain, name)
		if w.value(name, of, !sure, margin+"  ", choose(name, of), actions) && sure {
			required = append(required, name)
		}
	}
	if len(required) > 0 {
		w.out.WriteString(margin + "required: [" + strings.Join(required, ", ") + "]\n")
	}
}

// value writes one member, which may be null or not; false when nothing of it is kept.
func (w *projector) value(name string, views []*source.Node, null bool, margin string, keep, actions []string) bool {
	kind := w.kind(views)
	typed := kind
	if null {
		typed = "[" + kind + ", 'null']"
	}
	switch kind {
	case "object":
		var names []string
		for _, n := range w.members(views) {
			inside := w.property(views, n)
			switch k := w.kind(inside); {
			case k != "object" && k != "array" && k != "" && slices.Contains(keep, n):
				names = append(names, n)
			case (k == "object" || k == "array") && slices.Contains(within, n) && len(keep) == len(kept):
				names = append(names, n)
			}
		}
		if len(names) == 0 {
			return false
		}
		w.out.WriteString(margin + name + ":\n")
		if null {
			// The members come behind the type, and the type is written here.
			mark := w.out.Len()
			w.object(views, margin+"  ", chosen(names), nil)
			text := w.out.String()
			w.out.Reset()
			w.out.WriteString(text[:mark] + strings.Replace(text[mark:], "type: object\n", "type: "+typed+"\n", 1))
			return true
		}
		w.object(views, margin+"  ", chosen(names), nil)
	case "array":
		items := w.items(views)
		if name != "labels" || !w.member(items, "name") {
			return false
		}
		w.out.WriteString(margin + name + ": {type: [array, 'null'], items: {type: object, properties: {name: {type: string}}, required: [name]}}\n")
	case "integer", "number":
		fmt.Fprintf(w.out, "%s%s: {type: %s, minimum: 0, maximum: 9007199254740991}\n", margin, name, typed)
	case "string":
		more := ""
		if f := w.first(views, "format"); f == "date-time" || f == "uri" {
			more = ", format: " + f
		}
		if name == "action" && len(actions) > 0 {
			more += ", description: 'What happened: " + strings.Join(actions, ", ") + ".'"
		}
		fmt.Fprintf(w.out, "%s%s: {type: %s%s}\n", margin, name, typed, more)
	case "boolean":
		fmt.Fprintf(w.out, "%s%s: {type: %s}\n", margin, name, typed)
	default:
		return false
	}
	return true
}

// chosen keeps these members, and of what is inside them little.
func chosen(names []string) choice {
	return func(member string, _ []*source.Node) []string {
		if slices.Contains(names, member) {
			return inner
		}
		return nil
	}
}

// views are the schemas that may apply to a value.
func (w *projector) views(n *source.Node) []*source.Node {
	var all []*source.Node
	var visit func(n *source.Node)
	visit = func(n *source.Node) {
		if n == nil || slices.Contains(all, n) {
			return
		}
		if ref := n.Get("$ref"); ref != nil {
			visit(w.definitions.Get(strings.TrimPrefix(ref.Text, "#/definitions/")))
			return
		}
		all = append(all, n)
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			if list := n.Get(key); list != nil {
				for _, item := range list.Items {
					visit(item)
				}
			}
		}
	}
	visit(n)
	return all
}

// members are the names of properties in the order in which they are first written.
func (w *projector) members(views []*source.Node) []string {
	var names []string
	for _, v := range views {
		if p := v.Get("properties"); p != nil {
			for _, m := range p.Members {
				if !slices.Contains(names, m.Key) {
					names = append(names, m.Key)
				}
			}
		}
	}
	return names
}

func (w *projector) property(views []*source.Node, name string) []*source.Node {
	var all []*source.Node
	for _, v := range views {
		if p := v.Get("properties").Get(name); p != nil {
			for _, view := range w.views(p) {
				if !slices.Contains(all, view) {
					all = append(all, view)
				}
			}
		}
	}
	return all
}

func (w *projector) items(views []*source.Node) []*source.Node {
	for _, v := range views {
		if n := v.Get("items"); n != nil {
			return w.views(n)
		}
	}
	return nil
}

// types are the words of type.
func types(n *source.Node) []string {
	t := n.Get("type")
	if t == nil {
		return nil
	}
	if t.Kind == source.String {
		return []string{t.Text}
	}
	var words []string
	for _, item := range t.Items {
		words = append(words, item.Text)
	}
	return words
}

// kind is the one type that the values have beside null, "" for none or several.
func (w *projector) kind(views []*source.Node) string {
	kind := ""
	for _, v := range views {
		words := types(v)
		if words == nil && v.Get("properties") != nil {
			words = []string{"object"}
		}
		for _, t := range words {
			if t != "null" && kind != "" && t != kind {
				return ""
			}
			if t != "null" {
				kind = t
			}
		}
	}
	return kind
}

func (w *projector) nullable(views []*source.Node) bool {
	return slices.ContainsFunc(views, func(v *source.Node) bool { return slices.Contains(types(v), "null") })
}

func (w *projector) first(views []*source.Node, keyword string) string {
	for _, v := range views {
		if n := v.Get(keyword); n != nil {
			return n.Text
		}
	}
	return ""
}

// certain are the members that a body has and that are not null, as far as GitHub's schemas can be trusted: those
// that say which thing it is and what the event is about, or the first that is required where there is none of them.
func (w *projector) certain(views []*source.Node, names []string) []string {
	var required, certain []string
	for _, name := range names {
		of := w.property(views, name)
		if !w.isRequired(views, name) || w.nullable(of) {
			continue
		}
		required = append(required, name)
		about := w.kind(of) == "object" && (parties[name] != nil || strings.Contains(w.event, name))
		if about || slices.Contains(identifying, name) {
			certain = append(certain, name)
		}
	}
	if len(certain) == 0 && len(required) > 0 {
		certain = required[:1]
	}
	return certain
}

// isRequired reports whether every schema that describes the member requires it, so that any body has it.
func (w *projector) isRequired(views []*source.Node, name string) bool {
	for _, v := range views {
		if v.Get("properties").Get(name) == nil {
			// One of several bodies, which lacks it.
			whole := v.Get("required") != nil && v.Get("additionalProperties") != nil
			if whole && v.Get("properties") != nil && len(types(v)) > 0 {
				return false
			}
			continue
		}
		list := v.Get("required")
		if list == nil && v.Get("tsAdditionalProperties") != nil {
			continue // a refinement of another one
		}
		if list == nil || !slices.ContainsFunc(list.Items, func(n *source.Node) bool { return n.Text == name }) {
			return false
		}
	}
	return true
}
