package breaking

import (
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A walk visits the members, elements and map values that the schemas of two versions have in common. It visits each
// pair of schemas only once, even if several event types refer to it.
type walk struct {
	old, new side
	// compare returns the remarks for a pair. If it returns false, the walk does not visit nested pairs.
	compare func(before, after []*source.Node) ([]remark, bool)
	// compareMember returns the remarks for a member of a pair. It may be nil.
	compareMember func(name string, before, after, was, is []*source.Node) []remark
	known         map[pairKey]*schemaPair
}

// walk returns the walk with the given name for the packages of two event types. It calls prepare to initialize a new
// walk.
func (c *comparison) walk(old, new side, name string, prepare func(*walk)) *walk {
	key := walkKey{old.of, new.of, name}
	if c.walks[key] == nil {
		w := &walk{old: old, new: new, known: map[pairKey]*schemaPair{}}
		prepare(w)
		c.walks[key] = w
	}
	return c.walks[key]
}

type walkKey struct {
	old, new *Package
	name     string
}

// A remark is a finding about a pair or one of its members. Its text depends on the path to the pair and may be empty.
type remark struct {
	below string
	at    source.Range
	say   func(path string) string
}

// A pairKey identifies a pair by all of its schemas.
type pairKey struct {
	before, after *source.Node
	others        string
}

// A schemaPair contains the schemas of one value in both versions.
type schemaPair struct {
	before, after []*source.Node
	remarks       []remark
	next          []passage
	// hasRemarks reports whether this pair or a nested pair has remarks. users lists the pairs that contain this pair.
	hasRemarks bool
	users      []*schemaPair
}

type passage struct {
	path string
	to   *schemaPair
}

// run reports the findings about two schemas and their subschemas.
func (w *walk) run(before, after *source.Node, report func(source.Range, source.Diagnostic)) {
	top := w.explore([]*source.Node{before}, []*source.Node{after})
	if !top.hasRemarks {
		return
	}
	var all []func()
	left := maxPaths
	within := map[*schemaPair]bool{}
	say := func(p *schemaPair, path string) {
		for _, r := range p.remarks {
			if words := r.say(path + r.below); words != "" {
				all = append(all, func() { report(r.at, source.Diagnostic{Message: words}) })
			}
		}
	}
	var visit func(p *schemaPair, path string)
	visit = func(p *schemaPair, path string) {
		if !p.hasRemarks || within[p] || left <= 0 {
			return
		}
		left--
		within[p] = true
		say(p, path)
		for _, n := range p.next {
			visit(n.to, path+n.path)
		}
		delete(within, p)
	}
	if visit(top, ""); left <= 0 { // too many paths: report each pair once, at any path
		all = nil
		seen := map[*schemaPair]bool{top: true}
		for queue := []*schemaPair{top}; len(queue) > 0; queue = queue[1:] {
			path := "/…"
			if queue[0] == top {
				path = ""
			}
			say(queue[0], path)
			for _, n := range queue[0].next {
				if n.to.hasRemarks && !seen[n.to] {
					seen[n.to] = true
					queue = append(queue, n.to)
				}
			}
		}
	}
	for _, tell := range all {
		tell()
	}
}

// maxPaths limits the number of paths for which run reports findings individually.
const maxPaths = 16

// explore visits a pair and all new pairs reachable from it.
func (w *walk) explore(before, after []*source.Node) *schemaPair {
	var fresh []*schemaPair
	pair := func(before, after []*source.Node) *schemaPair {
		key := pairKey{before: before[0], after: after[0]}
		if len(before)+len(after) > 2 {
			key.others = fmt.Sprint(identities(before), identities(after))
		}
		p := w.known[key]
		if p == nil {
			p = &schemaPair{before: before, after: after}
			w.known[key] = p
			fresh = append(fresh, p)
		}
		return p
	}
	top := pair(before, after)
	for ; len(fresh) > 0; fresh = fresh[1:] {
		w.visit(fresh[0], pair)
	}
	return top
}

func identities(nodes []*source.Node) []string {
	var list []string
	for _, n := range nodes {
		list = append(list, fmt.Sprintf("%p", n))
	}
	return list
}

func (w *walk) visit(p *schemaPair, pair func(before, after []*source.Node) *schemaPair) {
	remarks, inside := w.compare(p.before, p.after)
	p.remarks = remarks
	defer func() {
		for _, n := range p.next {
			n.to.users = append(n.to.users, p)
			p.hasRemarks = p.hasRemarks || n.to.hasRemarks
		}
		if p.hasRemarks || len(p.remarks) > 0 {
			p.hasRemarks = false
			p.markRemarks()
		}
	}()
	if !inside {
		return
	}
	kept := map[string]bool{}
	for _, name := range memberNames(w.new, p.after) {
		kept[name] = true
	}
	for _, name := range memberNames(w.old, p.before) {
		if !kept[name] {
			continue // a separate finding
		}
		tokens := []string{"properties", name}
		was, is := subschemas(w.old.of.Set, p.before, tokens), subschemas(w.new.of.Set, p.after, tokens)
		if w.compareMember != nil {
			p.remarks = append(p.remarks, w.compareMember(name, p.before, p.after, was, is)...)
		}
		p.next = append(p.next, passage{wire.Pointer(name), pair(was, is)})
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		was, is := subschemas(w.old.of.Set, p.before, []string{keyword}), subschemas(w.new.of.Set, p.after, []string{keyword})
		if len(was) > 0 && len(is) > 0 {
			p.next = append(p.next, passage{wire.Pointer("*"), pair(was, is)})
		}
	}
}

// markRemarks sets hasRemarks for the pair and all pairs that contain it.
func (p *schemaPair) markRemarks() {
	for queue := []*schemaPair{p}; len(queue) > 0; queue = queue[1:] {
		if !queue[0].hasRemarks {
			queue[0].hasRemarks = true
			queue = append(queue, queue[0].users...)
		}
	}
}
