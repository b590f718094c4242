package ir

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A mention is a member name in a keyword that does not describe the member, such as required.
type mention struct {
	keyword  string
	at       *source.Node
	required bool
}

// mentions returns the mentions in required, dependentRequired and similar keywords.
func mentions(f *facts) []mention {
	var all []mention
	for _, p := range f.parts {
		for _, r := range p.ItemsAt("required") {
			all = append(all, mention{"required", r, true})
		}
		for _, k := range []string{"dependentRequired", "dependencies", "dependentSchemas"} {
			for _, m := range p.MembersAt(k) {
				all = append(all, mention{k, &source.Node{Kind: source.String, Text: m.Key, Range: m.KeyRange}, false})
				for _, r := range m.Value.Items {
					all = append(all, mention{k, r, false})
				}
			}
		}
	}
	return all
}

// addConditional adds the members that are described only in branches. Their Go type is raw JSON, because a branch
// applies only to some values.
func (b *builder) addConditional(f *facts, o *object) {
	known := map[string]bool{}
	for _, m := range f.properties {
		known[m.Key] = true
	}
	for _, m := range o.members {
		known[m.key] = true
	}
	b.branchMembers(f, o, known, map[*source.Node]bool{})
}

func (b *builder) branchMembers(f *facts, o *object, known map[string]bool, seen map[*source.Node]bool) {
	for _, br := range allBranches(f) {
		if seen[br.node] || br.node.Kind != source.Object {
			continue
		}
		seen[br.node] = true
		inner := b.gatherFacts(br.node)
		for _, m := range inner.properties {
			if !known[m.Key] && (m.Value.Kind == source.Object || m.Value.True()) {
				known[m.Key] = true
				b.addUntyped(o, m.Key, source.New("MCPE217", m.KeyRange, "the member %q is described only below %s; its Go type is json.RawMessage", m.Key, br.keyword).
					WithHint("describe it in the properties next to %s too", br.keyword))
			}
		}
		for _, r := range mentions(inner) {
			if !known[r.at.Text] && br.keyword != "not" {
				known[r.at.Text] = true
				b.addUntyped(o, r.at.Text, source.New("MCPE212", r.at.Range, "%s names the member %q, which is not in properties; its Go type is json.RawMessage", r.keyword, r.at.Text).
					WithHint("describe it in the properties next to %s", br.keyword))
			}
		}
		b.branchMembers(inner, o, known, seen)
	}
}

// addUntyped adds a member whose Go type is raw JSON, and reports why. The field Extra holds a member whose name is
// invalid in a struct tag.
func (b *builder) addUntyped(o *object, key string, why source.Diagnostic) {
	if !isTaggable(key) {
		o.isOpen = true
		return
	}
	b.report(why)
	o.members = append(o.members, member{key, why.Range, nil, false})
}

// allBranches returns the branches of a schema and the variants of its unions.
func allBranches(f *facts) []branch {
	branches := slices.Clone(f.branches)
	for _, u := range f.unions {
		for _, v := range u.variants {
			branches = append(branches, branch{u.keyword, v})
		}
	}
	return branches
}

// hasOpenBranch reports whether a branch has patternProperties or a schema for additional members.
func (b *builder) hasOpenBranch(f *facts, seen map[*source.Node]bool) bool {
	return slices.ContainsFunc(allBranches(f), func(br branch) bool {
		if seen[br.node] || br.node.Kind != source.Object {
			return false
		}
		seen[br.node] = true
		inner := b.gatherFacts(br.node)
		return slices.ContainsFunc(inner.parts, func(p *source.Node) bool {
			return p.Get("patternProperties") != nil || p.Get("additionalProperties") != nil || p.Get("unevaluatedProperties") != nil
		}) || b.hasOpenBranch(inner, seen)
	})
}
