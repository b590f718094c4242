package sample

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// maxMembers is the maximum number of members or elements in a generated value.
const maxMembers = 200

// memberList is an object under construction.
type memberList struct {
	names  []string
	values []json.RawMessage
}

func (o *memberList) has(name string) bool { return slices.Contains(o.names, name) }

func (o *memberList) add(name string, v json.RawMessage) {
	o.names, o.values = append(o.names, name), append(o.values, v)
}

func (o *memberList) json() json.RawMessage {
	out := []byte{'{'}
	for i, name := range o.names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(schematree.AppendString(out, name), ':'), o.values[i]...)
	}
	return append(out, '}')
}

func (m *maker) object(views []*source.Node, at place) (json.RawMessage, bool) {
	required := m.requiredMembers(views)
	most := int(tightestBound(views, "maxProperties", false, maxMembers))
	optional := 0
	var o memberList
	for _, v := range views {
		props := v.Get("properties")
		if props == nil {
			continue
		}
		for _, p := range props.Members {
			needed := slices.Contains(required, p.Key)
			if o.has(p.Key) || !needed && (m.sparse || at.depth >= m.limit.depth || optional >= m.limit.members || len(o.names)+missing(&o, required) >= most) {
				continue
			}
			schemas := schematree.Member(views, p.Key)
			if !needed && m.isRecursive(schemas) {
				continue
			}
			value, ok := m.generateValue(schemas, at.inside(p.Key, 0))
			switch {
			case ok:
				o.add(p.Key, value)
				if !needed {
					optional++
				}
			case needed:
				return nil, false
			}
		}
	}
	for _, name := range required {
		if o.has(name) {
			continue
		}
		value, ok := m.generateValue(schematree.Member(views, name), at.inside(name, 0))
		if !ok {
			return nil, false
		}
		o.add(name, value)
	}
	if !m.addUnnamed(&o, views, at, most) {
		return nil, false
	}
	return o.json(), true
}

// requiredMembers lists the required members, including members that dependentRequired adds.
func (m *maker) requiredMembers(views []*source.Node) []string {
	var names []string
	add := func(list *source.Node) {
		if list == nil {
			return
		}
		for _, item := range list.Items {
			if !slices.Contains(names, item.Text) {
				names = append(names, item.Text)
			}
		}
	}
	for _, v := range views {
		add(v.Get("required"))
	}
	present := func(name string) bool {
		return slices.Contains(names, name) || !m.sparse && slices.ContainsFunc(views, func(v *source.Node) bool { return v.Get("properties").Get(name) != nil })
	}
	for _, v := range views {
		for _, key := range []string{"dependentRequired", "dependencies"} {
			dependents := v.Get(key)
			if dependents == nil {
				continue
			}
			for _, d := range dependents.Members {
				if present(d.Key) && d.Value.Kind == source.Array {
					add(d.Value)
				}
			}
		}
	}
	return names
}

func missing(o *memberList, required []string) int {
	n := 0
	for _, name := range required {
		if !o.has(name) {
			n++
		}
	}
	return n
}

// addUnnamed adds members that are not in properties. It adds one member as an example, and more if minProperties
// requires them.
func (m *maker) addUnnamed(o *memberList, views []*source.Node, at place, most int) bool {
	least := int(tightestBound(views, "minProperties", true, 0))
	if least > maxMembers {
		return false
	}
	show := 0
	if !m.sparse && at.depth < m.limit.depth {
		show = 1
	}
	added := 0
	for _, v := range views {
		patterns := v.Get("patternProperties")
		if patterns == nil {
			continue
		}
		for _, p := range patterns.Members {
			for n := 0; n < maxMembers && len(o.names) < most && (n < show || len(o.names) < least); n++ {
				name, ok := matchingString(p.Key, n+m.branch)
				if !ok || o.has(name) {
					break
				}
				value, ok := m.generateValue(schematree.Member(views, name), at.inside(name, n))
				if !ok {
					break
				}
				o.add(name, value)
				added++
			}
		}
	}
	if !slices.ContainsFunc(views, func(v *source.Node) bool {
		return v.Get("additionalProperties") != nil && v.Get("additionalProperties").Kind == source.Object
	}) {
		show = 0
	}
	for n := 0; n < maxMembers && len(o.names) < most && (added == 0 && n < show || len(o.names) < least); n++ {
		name := m.extraName(views, at, n)
		if o.has(name) {
			continue
		}
		value, ok := m.generateValue(schematree.Member(views, name), at.inside(name, n))
		if !ok {
			break
		}
		o.add(name, value)
	}
	return len(o.names) >= least
}

// extraName returns a name for a member that is not in properties.
func (m *maker) extraName(views []*source.Node, at place, n int) string {
	for _, v := range views {
		if names := v.Get("propertyNames"); names != nil {
			if raw, ok := m.generateValue([]*source.Node{names}, place{"key", at.depth + 1, n}); ok {
				var name string
				if json.Unmarshal(raw, &name) == nil {
					return name
				}
			}
		}
	}
	return "key" + strconv.Itoa(n+1)
}

func (m *maker) array(views []*source.Node, at place) (json.RawMessage, bool) {
	least := int(tightestBound(views, "minItems", true, 0))
	most := int(tightestBound(views, "maxItems", false, maxMembers))
	if least > maxMembers {
		return nil, false
	}
	var first []*source.Node // for the first elements
	var rest, contains []*source.Node
	for _, v := range views {
		prefix, others, ok := schematree.Elements(v)
		if len(prefix) > len(first) {
			first = prefix
		}
		if ok {
			rest = append(rest, others)
		}
		if c := v.Get("contains"); c != nil {
			contains = append(contains, c)
		}
	}
	count := len(first)
	if count == 0 && len(rest) > 0 && !m.sparse && at.depth < m.limit.depth {
		count = 1
	}
	needed := int(tightestBound(views, "minContains", true, 1)) * min(1, len(contains))
	count = min(max(count, least, needed), max(most, 0), maxMembers)
	out := []byte{'['}
	for i := range count {
		schemas := rest
		if i < len(first) {
			schemas = []*source.Node{first[i]}
		}
		if i < needed {
			schemas = append(slices.Clone(schemas), contains...)
		}
		v, ok := m.generateValue(schemas, at.inside(singular(at.name), i))
		if !ok {
			if i >= least && i >= needed {
				break
			}
			return nil, false
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']'), true
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

// tightestBound returns the largest lower bound or the smallest upper bound of the views. Without a bound, it returns
// fallback.
func tightestBound(views []*source.Node, keyword string, lower bool, fallback float64) float64 {
	b := fallback
	for _, v := range views {
		n := v.Get(keyword)
		if n == nil || n.Kind != source.Number {
			continue
		}
		x, err := strconv.ParseFloat(n.Text, 64)
		if err == nil && (lower && x > b || !lower && x < b) {
			b = x
		}
	}
	return b
}
