package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// shareDefinitions converts definitions in published schemas to shared schemas. It reverses the step in which a server
// copies a definition into each event type that refers to it. Definitions with the same name, text and references
// become one shared schema. If different definitions have the same name, only the most frequent one is shared. An event
// keeps its definitions if sharing would change its published schemas.
func (w *writer) shareDefinitions() {
	keep := map[*draft]bool{} // drafts that keep their definitions
	before := map[*draft]string{}
	original := map[*draft]*source.Node{}
	for _, d := range w.drafts {
		original[d] = d.node
		before[d], _ = wire.Fingerprint(d.node.Get("inputSchema").JSON(), d.node.Get("payloadSchema").JSON())
	}
	for {
		w.rewriteDrafts(keep, original)
		changed := w.changedDrafts(before, keep)
		if len(changed) == 0 {
			return
		}
		for _, d := range changed {
			keep[d] = true
		}
	}
}

// changedDrafts returns the drafts whose published schemas differ from before. It skips drafts without valid schemas.
func (w *writer) changedDrafts(before map[*draft]string, keep map[*draft]bool) []*draft {
	set, _ := load(w.render())
	var changed []*draft
	for i, e := range set.Files[0].Events {
		if i >= len(w.drafts) {
			break
		}
		d := w.drafts[i]
		if keep[d] || e.Input == nil || e.Payload == nil {
			continue
		}
		is, err := set.Fingerprint(set.Shared(e.Input), set.Shared(e.Payload))
		if err != nil || before[d] == "" || before[d] != is {
			changed = append(changed, d)
		}
	}
	return changed
}

// A definition is a definition in a published schema that may become a shared schema. Definitions with the same name,
// text and references have the same class.
type definition struct {
	name  string
	node  *source.Node
	refs  []*definition
	class int
	// isClosed reports whether the definition refers only to closed definitions of the same schema. used reports whether
	// the schema refers to it, directly or indirectly.
	isClosed, used bool
}

// rewriteDrafts makes all drafts, except those in keep, refer to shared schemas.
func (w *writer) rewriteDrafts(keep map[*draft]bool, original map[*draft]*source.Node) {
	var all []*definition
	parts := map[*draft]map[string]map[string]*definition{} // by part and name
	for _, d := range w.drafts {
		d.node = original[d]
		if keep[d] {
			continue
		}
		parts[d] = map[string]map[string]*definition{}
		for _, part := range []string{"inputSchema", "payloadSchema"} {
			defs := definitions(d.node.Get(part))
			parts[d][part] = map[string]*definition{}
			for _, def := range defs {
				if def.used && def.isClosed && eventName.MatchString(def.name) {
					parts[d][part][def.name] = def
				}
				all = append(all, def)
			}
		}
	}
	first := classify(all)
	uses := make([]int, len(first))
	var ranked []*definition
	for _, d := range w.drafts {
		for _, part := range []string{"inputSchema", "payloadSchema"} {
			for _, m := range Members(d.node.Get(part).Get("$defs")) {
				if def := parts[d][part][m.Key]; def != nil {
					if uses[def.class]++; uses[def.class] == 1 {
						ranked = append(ranked, def)
					}
				}
			}
		}
	}
	inOrder := slices.Clone(ranked)
	// The most used class gets the name. A definition that refers to a class without its name cannot be shared.
	slices.SortStableFunc(ranked, func(a, b *definition) int { return cmp.Compare(uses[b.class], uses[a.class]) })
	chosen := map[string]int{}
	for _, def := range ranked {
		if _, taken := chosen[def.name]; !taken {
			chosen[def.name] = def.class
		}
	}
	shared := shareableClasses(first, chosen)
	w.shared, w.order = map[string]*draft{}, nil
	for _, def := range inOrder {
		if shared[def.class] {
			w.shared[def.name] = &draft{name: def.name, shared: true, node: rewriteReferences(def.node, func(string) bool { return true })}
			w.order = append(w.order, def.name)
		}
	}
	for _, d := range w.drafts {
		if keep[d] {
			continue
		}
		d.node = &source.Node{Kind: source.Object, Members: slices.Clone(d.node.Members)}
		for part, defs := range parts[d] {
			lifted := func(name string) bool { return defs[name] != nil && shared[defs[name].class] }
			m := d.node.Member(part)
			m.Value = withoutDefinitions(rewriteReferences(m.Value, lifted), lifted)
		}
	}
}

// shareableClasses reports for each class whether it can be shared. The class and all classes that it refers to must
// have their names in chosen.
func shareableClasses(first []*definition, chosen map[string]int) []bool {
	ok := make([]bool, len(first))
	for i, def := range first {
		class, known := chosen[def.name]
		ok[i] = known && class == i
	}
	for changed := true; changed; {
		changed = false
		for i, def := range first {
			if ok[i] && slices.ContainsFunc(def.refs, func(to *definition) bool { return !ok[to.class] }) {
				ok[i], changed = false, true
			}
		}
	}
	return ok
}

// definitions returns the definitions of a schema. It returns nil if they depend on keywords such as $id or $schema.
func definitions(root *source.Node) []*definition {
	if root.Get("$schema") != nil || hasAny(root, "$id", "$anchor", "$dynamicRef", "$dynamicAnchor") {
		return nil
	}
	var all []*definition
	byName := map[string]*definition{}
	for _, m := range Members(root.Get("$defs")) {
		def := &definition{name: m.Key, node: m.Value, isClosed: true}
		byName[m.Key] = def
		all = append(all, def)
	}
	for _, def := range all {
		walk(def.node, func(n *source.Node) {
			for _, ref := range references(n) {
				name, _, local := definitionOf(ref.Text)
				to := byName[name]
				if def.isClosed = def.isClosed && local && to != nil; def.isClosed && !slices.Contains(def.refs, to) {
					def.refs = append(def.refs, to)
				}
			}
		})
	}
	for changed := true; changed; {
		changed = false
		for _, def := range all {
			if def.isClosed && slices.ContainsFunc(def.refs, func(to *definition) bool { return !to.isClosed }) {
				def.isClosed, changed = false, true
			}
		}
	}
	var queue []*definition // unused definitions would not be published
	use := func(def *definition) {
		if def != nil && !def.used {
			def.used = true
			queue = append(queue, def)
		}
	}
	for _, m := range root.Members {
		if m.Key == "$defs" {
			continue
		}
		walk(&source.Node{Kind: source.Object, Members: []source.Member{m}}, func(n *source.Node) {
			for _, ref := range references(n) {
				if name, _, local := definitionOf(ref.Text); local {
					use(byName[name])
				}
			}
		})
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, to := range queue[0].refs {
			use(to)
		}
	}
	return all
}

// classify assigns a class to each definition and returns the first definition of each class. It starts by grouping
// definitions with the same name and text. It then splits classes until their definitions also have equal references.
func classify(all []*definition) []*definition {
	classes := 0
	divide := func(key func(*definition) string) []*definition {
		known := map[string]int{}
		var first []*definition
		next := make([]int, len(all))
		for i, def := range all {
			k := key(def)
			class, ok := known[k]
			if !ok {
				class = len(first)
				known[k] = class
				first = append(first, def)
			}
			next[i] = class
		}
		for i, def := range all {
			def.class = next[i]
		}
		return first
	}
	first := divide(func(def *definition) string {
		text := def.node.JSON()
		if canonical, err := wire.Canonical(text); err == nil {
			text = canonical
		}
		return fmt.Sprintf("%s\x00%t\x00%s", def.name, def.isClosed, text)
	})
	for len(first) > classes {
		classes = len(first)
		first = divide(func(def *definition) string {
			key := strconv.AppendInt(nil, int64(def.class), 10)
			for _, to := range def.refs {
				key = strconv.AppendInt(append(key, ' '), int64(to.class), 10)
			}
			return string(key)
		})
	}
	return first
}

// definitionOf splits a reference to a definition into its name and the remaining pointer.
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

// references returns the references in n, except those in its subschemas.
func references(n *source.Node) []*source.Node {
	var out []*source.Node
	if ref := n.Get("$ref"); ref != nil && ref.Kind == source.String {
		out = append(out, ref)
	}
	for _, m := range Members(n.Get("discriminator").Get("mapping")) {
		if m.Value.Kind == source.String && strings.Contains(m.Value.Text, "#") {
			out = append(out, m.Value)
		}
	}
	return out
}

// rewriteReferences returns a copy of n. References to definitions for which lifted returns true become references to
// shared schemas.
func rewriteReferences(n *source.Node, lifted func(name string) bool) *source.Node {
	out := *n
	out.Members = slices.Clone(n.Members)
	for i, m := range out.Members {
		v := m.Value
		k, _ := schematree.Any.Keyword(m.Key)
		switch mapping := v.Get("mapping"); {
		case m.Key == "$ref":
			v = redirect(v, lifted)
		case m.Key == "discriminator" && mapping != nil:
			d := *v
			d.Members = slices.Clone(v.Members)
			d.Member("mapping").Value = redirect(mapping, lifted)
			v = &d
		default:
			v = source.CopySchemas(k, v, func(inner *source.Node) *source.Node { return rewriteReferences(inner, lifted) })
		}
		out.Members[i].Value = v
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

// withoutDefinitions removes the lifted definitions.
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

// walk calls f for n and all its descendants.
func walk(n *source.Node, f func(*source.Node)) {
	f(n)
	for _, m := range n.Members {
		walk(m.Value, f)
	}
	for _, item := range n.Items {
		walk(item, f)
	}
}

// Members returns the members of n, or nil if n is nil.
func Members(n *source.Node) []source.Member {
	if n == nil {
		return nil
	}
	return n.Members
}

// TextOf returns the text of a member, or "".
func TextOf(n *source.Node, key string) string {
	if v := n.Get(key); v != nil {
		return v.Text
	}
	return ""
}

// EachReference calls f for all references in a schema and its subschemas.
func EachReference(n *source.Node, f func(ref *source.Node)) {
	for _, ref := range references(n) {
		f(ref)
	}
	schematree.Each(schematree.Any, n, func(_, _ string, inner *source.Node) { EachReference(inner, f) })
}
