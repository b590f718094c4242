package sample

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// maxMembers is the maximum number of members or elements in a generated value.
const maxMembers = 200

// An object is a JSON object under construction.
type object struct {
	*maker
	views   []*source.Node
	at      place
	most    int // members
	members schematree.Members
}

func (m *maker) object(views []*source.Node, at place) (json.RawMessage, bool) {
	o := &object{maker: m, views: views, at: at, most: sizeBound(views, "maxProperties", -1, maxMembers)}
	required := m.requiredMembers(views)
	if !o.addDescribed(required) {
		return nil, false
	}
	for _, name := range required {
		if !o.has(name) && !o.add(name, 0) {
			return nil, false
		}
	}
	least := sizeBound(views, "minProperties", 1, 0)
	o.addUnnamed(least)
	return o.members.JSON(), len(o.members) >= least
}

func (o *object) has(name string) bool { return o.members.Get(name) != nil }

// add adds a member, or returns false if it does not find a value. nth is the index of the member among similar ones.
func (o *object) add(name string, nth int) bool {
	value, ok := o.generateValue(schematree.Member(o.views, name), o.at.inside(name, nth))
	if ok {
		o.members = o.members.With(name, value)
	}
	return ok
}

// missing returns the number of the names that the object lacks.
func (o *object) missing(names []string) (n int) {
	for _, name := range names {
		if !o.has(name) {
			n++
		}
	}
	return n
}

// addDescribed adds the members in properties: those in required, and as many others as the limits allow. It returns
// false if it does not find a value for a required member.
func (o *object) addDescribed(required []string) bool {
	optional := 0
	for _, properties := range keywordValues(o.views, "properties") {
		for _, p := range properties.Members {
			needed := slices.Contains(required, p.Key)
			switch {
			case o.has(p.Key):
			case needed:
				if !o.add(p.Key, 0) {
					return false
				}
			case o.sparse || o.at.depth >= o.limit.depth || optional >= o.limit.members:
			case len(o.members)+o.missing(required) >= o.most || o.isRecursive(schematree.Member(o.views, p.Key)):
			case o.add(p.Key, 0):
				optional++
			}
		}
	}
	return true
}

// addUnnamed adds members that are not in properties. It adds one as an example, and more if the object has fewer than
// least.
func (o *object) addUnnamed(least int) {
	show := 0
	if !o.sparse && o.at.depth < o.limit.depth {
		show = 1
	}
	add := func(nameOf func(n int) (string, bool)) {
		for n := 0; n < maxMembers && len(o.members) < o.most && (n < show || len(o.members) < least); n++ {
			name, ok := nameOf(n)
			if !ok || !o.has(name) && !o.add(name, n) {
				return
			}
		}
	}
	before := len(o.members)
	for _, patterns := range keywordValues(o.views, "patternProperties") {
		for _, p := range patterns.Members {
			add(func(n int) (string, bool) { return matchingString(p.Key, n+o.branch) })
		}
	}
	isObject := func(n *source.Node) bool { return n.Kind == source.Object }
	if len(o.members) > before || !slices.ContainsFunc(keywordValues(o.views, "additionalProperties"), isObject) {
		show = 0
	}
	add(o.extraName)
}

// requiredMembers lists the required members, including members that dependentRequired adds.
func (m *maker) requiredMembers(views []*source.Node) []string {
	var names []string
	add := func(list *source.Node) {
		for _, item := range list.Items {
			if !slices.Contains(names, item.Text) {
				names = append(names, item.Text)
			}
		}
	}
	for _, list := range keywordValues(views, "required") {
		add(list)
	}
	isPresent := func(name string) bool {
		return slices.Contains(names, name) || !m.sparse && slices.ContainsFunc(keywordValues(views, "properties"), func(p *source.Node) bool { return p.Get(name) != nil })
	}
	for _, dependents := range slices.Concat(keywordValues(views, "dependentRequired"), keywordValues(views, "dependencies")) {
		for _, d := range dependents.Members {
			if isPresent(d.Key) {
				add(d.Value) // a schema has no items
			}
		}
	}
	return names
}

// extraName returns a name for a member that is neither in properties nor in patternProperties.
func (o *object) extraName(n int) (string, bool) {
	for _, names := range keywordValues(o.views, "propertyNames") {
		var name string
		if raw, ok := o.generateValue([]*source.Node{names}, o.at.inside("key", n)); ok && json.Unmarshal(raw, &name) == nil {
			return name, true
		}
	}
	return "key" + strconv.Itoa(n+1), true
}

func (m *maker) array(views []*source.Node, at place) (json.RawMessage, bool) {
	least, most := sizeBound(views, "minItems", 1, 0), sizeBound(views, "maxItems", -1, maxMembers)
	if least > maxMembers {
		return nil, false
	}
	var first, rest []*source.Node // the schemas of the first and of the remaining elements
	for _, v := range views {
		prefix, others, ok := schematree.Elements(v)
		if len(prefix) > len(first) {
			first = prefix
		}
		if ok {
			rest = append(rest, others)
		}
	}
	count := len(first)
	if count == 0 && len(rest) > 0 && !m.sparse && at.depth < m.limit.depth {
		count = 1
	}
	contains := keywordValues(views, "contains")
	needed := sizeBound(views, "minContains", 1, 1) * min(1, len(contains))
	count = min(max(count, least, needed), max(most, 0), maxMembers)
	var values [][]byte
	for i := range count {
		schemas := rest
		if i < len(first) {
			schemas = []*source.Node{first[i]}
		}
		if i < needed {
			schemas = slices.Concat(schemas, contains)
		}
		v, ok := m.generateValue(schemas, at.inside(singular(at.name), i))
		if !ok && (i < least || i < needed) {
			return nil, false
		}
		if !ok {
			break
		}
		values = append(values, v)
	}
	return slices.Concat([]byte{'['}, bytes.Join(values, []byte{','}), []byte{']'}), true
}

func singular(name string) string {
	if len(name) > 3 && strings.HasSuffix(name, "ies") {
		return name[:len(name)-3] + "y"
	}
	if len(name) > 2 && strings.HasSuffix(name, "s") && !strings.HasSuffix(name, "ss") {
		return name[:len(name)-1]
	}
	return name
}

// sizeBound returns the tightest lower bound (sign 1) or upper bound (sign -1) of a size, or fallback if no bound is
// tighter.
func sizeBound(views []*source.Node, keyword string, sign, fallback int) int {
	b, _ := schematree.TightestBound(views, keyword, "", sign)
	if !b.IsTighterThan(schematree.Bound{At: big.NewRat(int64(fallback), 1)}, sign) {
		return fallback
	}
	size, _ := b.At.Float64()
	return int(size)
}
