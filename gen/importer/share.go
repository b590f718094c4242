package importer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// share makes shared schemas of the definitions in published schemas: a server copies what several of
// its event types refer to into each of them. Definitions that are equal, with all that they refer to,
// become one schema, named as they are; of others of the same name the most frequent does. An event that
// would publish anything else by it keeps its own.
func (w *writer) share() {
	keep := map[*draft]bool{} // keeps its definitions
	before := map[*draft][]string{}
	original := map[*draft]*source.Node{}
	for _, d := range w.drafts {
		original[d] = d.node
		before[d] = []string{string(d.node.Get("inputSchema").JSON()), string(d.node.Get("payloadSchema").JSON())}
	}
	for {
		w.lift(keep, original)
		changed := w.published(before, keep)
		if len(changed) == 0 {
			return
		}
		for _, d := range changed {
			keep[d] = true
		}
	}
}

// published returns the drafts that would publish something else than before. Those that do not load by
// themselves are left for later.
func (w *writer) published(before map[*draft][]string, keep map[*draft]bool) []*draft {
	set, _ := load(w.file())
	var changed []*draft
	for i, e := range set.Files[0].Events {
		if i >= len(w.drafts) {
			break
		}
		d := w.drafts[i]
		if keep[d] || e.Input == nil || e.Payload == nil {
			continue
		}
		was, err1 := wire.Fingerprint([]byte(before[d][0]), []byte(before[d][1]))
		is, err2 := wire.Fingerprint(set.Published(e.Input), set.Published(e.Payload))
		if err1 != nil || err2 != nil || was != is {
			changed = append(changed, d)
		}
	}
	return changed
}

// A definition is one that may become a shared schema.
type definition struct {
	name, identity string
	node           *source.Node
	uses           int
}

// lift rewrites the drafts, but those that keep their definitions, to refer to shared schemas.
func (w *writer) lift(keep map[*draft]bool, original map[*draft]*source.Node) {
	byIdentity := map[string]*definition{}
	var all []*definition
	parts := map[*draft]map[string]map[string]string{} // identities by part and name
	for _, d := range w.drafts {
		d.node = original[d]
		if keep[d] {
			continue
		}
		parts[d] = map[string]map[string]string{}
		for _, part := range []string{"inputSchema", "payloadSchema"} {
			ids := identities(d.node.Get(part))
			parts[d][part] = ids
			for _, m := range members(d.node.Get(part).Get("$defs")) {
				id := ids[m.Key]
				if id == "" {
					continue
				}
				if byIdentity[id] == nil {
					byIdentity[id] = &definition{name: m.Key, identity: id, node: m.Value}
					all = append(all, byIdentity[id])
				}
				byIdentity[id].uses++
			}
		}
	}
	// What is used most has the name; what refers to a definition that has not cannot be shared either.
	chosen := map[string]string{}
	ranked := slices.Clone(all)
	slices.SortStableFunc(ranked, func(a, b *definition) int { return cmp.Compare(b.uses, a.uses) })
	for _, def := range ranked {
		if chosen[def.name] == "" {
			chosen[def.name] = def.identity
		}
	}
	w.shared, w.order = map[string]*draft{}, nil
	for _, def := range all {
		if chosen[def.name] == def.identity && agrees(def.identity, chosen) {
			w.shared[def.name] = &draft{name: def.name, shared: true, node: rewrite(def.node, func(string) bool { return true })}
			w.order = append(w.order, def.name)
		}
	}
	for _, d := range w.drafts {
		if keep[d] {
			continue
		}
		d.node = &source.Node{Kind: source.Object, Members: slices.Clone(d.node.Members)}
		for part, ids := range parts[d] {
			lifted := func(name string) bool {
				return w.shared[name] != nil && ids[name] != "" && chosen[name] == ids[name] && agrees(ids[name], chosen)
			}
			m := d.node.Member(part)
			m.Value = withoutDefinitions(rewrite(m.Value, lifted), lifted)
		}
	}
}

// identities returns, for each definition of a schema that could stand by itself, a text that two
// definitions share only when they and all that they refer to are equal.
func identities(root *source.Node) map[string]string {
	if root.Get("$schema") != nil || hasAny(root, "$id", "$anchor", "$dynamicRef", "$dynamicAnchor") {
		return nil
	}
	defs := map[string]*source.Node{}
	for _, m := range members(root.Get("$defs")) {
		defs[m.Key] = m.Value
	}
	used := map[string]bool{} // others would not be published
	body := &source.Node{Kind: source.Object}
	for _, m := range root.Members {
		if m.Key != "$defs" {
			body.Members = append(body.Members, m)
		}
	}
	walk(body, func(n *source.Node) {
		for _, ref := range references(n) {
			if to, _, local := definitionOf(ref.Text); local {
				closure(to, defs, used)
			}
		}
	})
	out := map[string]string{}
	for name := range used {
		reached := map[string]bool{}
		if !closure(name, defs, reached) || !eventName.MatchString(name) {
			continue
		}
		var b strings.Builder
		b.WriteString(name)
		for _, other := range sorted(reached) {
			text, err := wire.Canonical(defs[other].JSON())
			if err != nil {
				text = defs[other].JSON()
			}
			b.WriteString("\x00" + other + "\x01" + string(text))
		}
		out[name] = b.String()
	}
	return out
}

// agrees reports whether everything that a definition of the identity refers to has its name too.
func agrees(identity string, chosen map[string]string) bool {
	_, rest, _ := strings.Cut(identity, "\x00")
	for part := range strings.SplitSeq(rest, "\x00") {
		name, text, _ := strings.Cut(part, "\x01")
		if !strings.Contains(chosen[name]+"\x00", "\x00"+name+"\x01"+text+"\x00") {
			return false
		}
	}
	return true
}

// closure collects the definitions that one refers to, itself included; false when it refers to anything
// else.
func closure(name string, defs map[string]*source.Node, reached map[string]bool) bool {
	if reached[name] {
		return true
	}
	if defs[name] == nil {
		return false
	}
	reached[name] = true
	ok := true
	walk(defs[name], func(n *source.Node) {
		for _, ref := range references(n) {
			to, _, local := definitionOf(ref.Text)
			ok = ok && local && closure(to, defs, reached)
		}
	})
	return ok
}

// definitionOf splits a reference to a definition into its name and what follows.
func definitionOf(ref string) (name, rest string, ok bool) {
	pointer, ok := strings.CutPrefix(ref, "#/$defs/")
	if !ok || strings.Contains(pointer, "%") {
		return "", "", false
	}
	name, rest, found := strings.Cut(pointer, "/")
	if found {
		rest = "/" + rest
	}
	return name, rest, !strings.Contains(name, "~")
}

// references are the texts below n, without those of schemas inside it, that name another schema.
func references(n *source.Node) []*source.Node {
	var out []*source.Node
	if ref := n.Get("$ref"); ref != nil && ref.Kind == source.String {
		out = append(out, ref)
	}
	for _, m := range members(n.Get("discriminator").Get("mapping")) {
		if m.Value.Kind == source.String && strings.Contains(m.Value.Text, "#") {
			out = append(out, m.Value)
		}
	}
	return out
}

// rewrite copies n with references to definitions that are lifted leading to shared schemas.
func rewrite(n *source.Node, lifted func(name string) bool) *source.Node {
	out := *n
	out.Members, out.Items = slices.Clone(n.Members), slices.Clone(n.Items)
	if n.Kind == source.String {
		return &out
	}
	for i, m := range out.Members {
		if m.Key == "$ref" || (m.Key == "mapping" && m.Value.Kind == source.Object) {
			out.Members[i].Value = redirect(m.Value, lifted)
			continue
		}
		out.Members[i].Value = rewrite(m.Value, lifted)
	}
	for i, item := range out.Items {
		out.Items[i] = rewrite(item, lifted)
	}
	return &out
}

func redirect(n *source.Node, lifted func(name string) bool) *source.Node {
	if n.Kind == source.String {
		if name, rest, ok := definitionOf(n.Text); ok && lifted(name) {
			return yaml.Text("#/schemas/" + name + rest)
		}
		return n
	}
	out := yaml.Object()
	for _, m := range n.Members {
		yaml.Set(out, m.Key, redirect(m.Value, lifted))
	}
	return out
}

// withoutDefinitions leaves out the definitions that are lifted.
func withoutDefinitions(n *source.Node, lifted func(name string) bool) *source.Node {
	m := n.Member("$defs")
	if m == nil {
		return n
	}
	defs := yaml.Object()
	for _, d := range m.Value.Members {
		if !lifted(d.Key) {
			yaml.Set(defs, d.Key, d.Value)
		}
	}
	if m.Value = defs; len(defs.Members) == 0 {
		n.Members = slices.DeleteFunc(n.Members, func(m source.Member) bool { return m.Key == "$defs" })
	}
	return n
}

func hasAny(n *source.Node, keywords ...string) bool {
	found := false
	walk(n, func(n *source.Node) {
		for _, m := range n.Members {
			found = found || slices.Contains(keywords, m.Key)
		}
	})
	return found
}

// walk calls f for n and every node inside it.
func walk(n *source.Node, f func(*source.Node)) {
	f(n)
	for _, m := range n.Members {
		walk(m.Value, f)
	}
	for _, item := range n.Items {
		walk(item, f)
	}
}

func members(n *source.Node) []source.Member {
	if n == nil {
		return nil
	}
	return n.Members
}

func sorted(set map[string]bool) []string {
	var out []string
	for name := range set {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
