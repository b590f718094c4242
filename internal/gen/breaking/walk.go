package breaking

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A walk visits the members, elements and map values that the schemas of two versions have in common. It visits each
// pair of schemas only once, even if several event types refer to it.
type walk struct {
	old, new side
	// compare returns the remarks for a pair. If it returns false, the walk does not visit nested pairs. It may be nil.
	compare func(p *schemaPair) ([]remark, bool)
	// compareMember returns the remarks for a member of a pair. It may be nil.
	compareMember func(name string, object, member *schemaPair) []remark
	known         map[[2]int]*schemaPair // by the numbers of the schemas
	numbers       map[numberKey]int
}

// A numberKey identifies a list of schemas by its last schema and the number of the preceding schemas.
type numberKey struct {
	preceding int
	last      *source.Node
}

// walk returns the walk with the given name for the packages of two event types. It calls prepare to initialize a new
// walk.
func (c *comparison) walk(old, new side, name string, prepare func(*walk)) *walk {
	key := walkKey{old.of, new.of, name}
	if c.walks[key] == nil {
		w := &walk{old: old, new: new, known: map[[2]int]*schemaPair{}, numbers: map[numberKey]int{}}
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

// A schemaPair contains the schemas of one value in both versions.
type schemaPair struct {
	before, after value
	remarks       []remark
	next          []passage
	// hasRemarks reports whether this pair or a nested pair has remarks. users lists the pairs that contain this pair.
	hasRemarks bool
	users      []*schemaPair
}

// A value contains the schemas of a value in one version. views also includes the schemas that they refer to.
type value struct{ schemas, views []*source.Node }

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
		key := [2]int{w.number(before), w.number(after)}
		p := w.known[key]
		if p == nil {
			p = &schemaPair{before: w.old.value(before), after: w.new.value(after)}
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

// number returns the number of a list of schemas. Equal lists have the same number.
func (w *walk) number(schemas []*source.Node) (number int) {
	for _, n := range schemas {
		key := numberKey{number, n}
		if w.numbers[key] == 0 {
			w.numbers[key] = len(w.numbers) + 1
		}
		number = w.numbers[key]
	}
	return number
}

func (s side) value(schemas []*source.Node) value { return value{schemas, s.of.Set.Views(schemas...)} }

func (w *walk) visit(p *schemaPair, pair func(before, after []*source.Node) *schemaPair) {
	inside := true
	if w.compare != nil {
		p.remarks, inside = w.compare(p)
	}
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
	names, old := members(p.before.views)
	_, new := members(p.after.views)
	for _, name := range names {
		if new[name] == nil {
			continue // a separate finding
		}
		member := pair(old[name], new[name])
		if w.compareMember != nil {
			p.remarks = append(p.remarks, w.compareMember(name, p, member)...)
		}
		p.next = append(p.next, passage{wire.Pointer(name), member})
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		was, is := subschemas(p.before.views, keyword), subschemas(p.after.views, keyword)
		if len(was) > 0 && len(is) > 0 {
			p.next = append(p.next, passage{wire.Pointer("*"), pair(was, is)})
		}
	}
}

// members returns the names and schemas of the members that the views of an object declare, in source order.
func members(views []*source.Node) (names []string, schemas map[string][]*source.Node) {
	schemas = map[string][]*source.Node{}
	for _, view := range views {
		for _, m := range view.MembersAt("properties") {
			if schemas[m.Key] == nil {
				names = append(names, m.Key)
			}
			schemas[m.Key] = append(schemas[m.Key], m.Value)
		}
	}
	return names, schemas
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
