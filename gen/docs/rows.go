package docs

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/internal/parsed"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
)

// A Row describes one member of the arguments or of a payload.
type Row struct {
	// Path is the way to the member: names joined by dots, [] for the elements of an array, * for
	// members of any name. Name is its last part, Depth how many parts stand before it.
	Path, Name string
	Depth      int
	// Variant is set for a row that only introduces the members of one alternative; Within is the
	// alternative that a member belongs to.
	Variant, Within string
	// Type says what values look like, in words.
	Type string
	// Values are the values of an enum, as JSON.
	Values []string
	// Limits are bounds, patterns and formats in words.
	Limits      []string
	Required    bool
	Deprecated  bool
	Description string
	// Default is JSON, empty when there is none.
	Default string
	// Filter says how the argument filters, empty when it does not.
	Filter string
}

// maxRows bounds the table of one schema, maxDepth how deep it looks.
const (
	maxRows  = 400
	maxDepth = 6
)

// Rows lists the members of a published schema, those of inner objects after the member that holds
// them.
func Rows(text json.RawMessage) []Row {
	return rows(new(parsed.Schemas), &published.Schema{Head: text})
}

// rows is [Rows] of a schema whose definitions are apart.
func rows(known *parsed.Schemas, s *published.Schema) []Row {
	schema, ok := known.Of(s)
	if !ok {
		return nil
	}
	t := &table{schema: schema}
	t.members(t.views(schema.Root), "", 0, nil)
	return t.rows
}

type table struct {
	schema *parsed.Schema
	rows   []Row
	// variant is the alternative whose members are being added.
	variant string
}

// views are the schemas that apply to a value: n itself, what it refers to, and the parts of allOf.
func (t *table) views(n *source.Node) []*source.Node {
	var views []*source.Node
	seen := map[*source.Node]bool{}
	var add func(*source.Node)
	add = func(n *source.Node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		views = append(views, n)
		if ref := n.Get("$ref"); ref != nil {
			add(t.schema.Resolve(ref.Text))
		}
		if all := n.Get("allOf"); all != nil {
			for _, part := range all.Items {
				add(part)
			}
		}
	}
	add(n)
	return views
}

// first is the first value of a keyword.
func first(views []*source.Node, keyword string) *source.Node {
	for _, v := range views {
		if n := v.Get(keyword); n != nil {
			return n
		}
	}
	return nil
}

// members adds the rows of an object. open are the schemas around it.
func (t *table) members(views []*source.Node, path string, depth int, open []*source.Node) {
	if depth > maxDepth || len(t.rows) > maxRows {
		return
	}
	open = append(slices.Clip(open), views...)
	var required []string
	for _, v := range views {
		if list := v.Get("required"); list != nil {
			for _, item := range list.Items {
				required = append(required, item.Text)
			}
		}
	}
	done := map[string]bool{}
	for _, v := range views {
		for _, m := range membersOf(v, "properties") {
			if !done[m.Key] {
				done[m.Key] = true
				t.member(m.Key, m.Value, path, depth, slices.Contains(required, m.Key), open)
			}
		}
	}
	for _, v := range views {
		for _, m := range membersOf(v, "patternProperties") {
			t.member("/"+m.Key+"/", m.Value, path, depth, false, open)
		}
		if extra := v.Get("additionalProperties"); extra != nil && extra.Kind == source.Object {
			t.member("*", extra, path, depth, false, open)
		}
	}
	t.variants(views, path, depth, open)
}

func membersOf(n *source.Node, keyword string) []source.Member {
	if list := n.Get(keyword); list != nil && list.Kind == source.Object {
		return list.Members
	}
	return nil
}

// member adds the row of one member and those inside it.
func (t *table) member(name string, n *source.Node, path string, depth int, required bool, open []*source.Node) {
	if n.Kind == source.Bool && !n.True() {
		return
	}
	views := t.views(n)
	row := Row{Path: join(path, name), Name: name, Depth: depth, Required: required, Within: t.variant}
	row.Type = t.typeName(views, 0)
	row.Values = values(views)
	row.Limits = limits(views)
	for _, v := range views {
		row.Deprecated = row.Deprecated || v.Get("deprecated").True()
	}
	for _, keyword := range []string{"description", "title"} {
		if d := first(views, keyword); d != nil && row.Description == "" {
			row.Description = strings.TrimSpace(d.Text)
		}
	}
	if d := first(views, "default"); d != nil {
		row.Default = string(d.JSON())
	}
	t.rows = append(t.rows, row)
	t.inside(views, row.Path, depth+1, open)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// inside adds what the value of a row holds: members of an object, of the elements of an array, of
// the one alternative that is not null.
func (t *table) inside(views []*source.Node, path string, depth int, open []*source.Node) {
	for _, v := range views {
		if slices.Contains(open, v) && v.Kind == source.Object {
			return // described above
		}
	}
	if one := t.only(views); one != nil {
		views = append(slices.Clip(views), t.views(one)...)
	}
	if items := first(views, "items"); items != nil && items.Kind == source.Object {
		t.inside(t.views(items), path+"[]", depth, append(slices.Clip(open), views...))
		return
	}
	t.members(views, path, depth, open)
}

// only is the alternative of a choice that is not null, when there is one.
func (t *table) only(views []*source.Node) *source.Node {
	list := t.alternatives(views)
	if len(list) == 1 {
		return list[0]
	}
	return nil
}

// alternatives are those of oneOf or anyOf that are not null.
func (t *table) alternatives(views []*source.Node) []*source.Node {
	var list []*source.Node
	for _, keyword := range []string{"oneOf", "anyOf"} {
		choice := first(views, keyword)
		if choice == nil {
			continue
		}
		for _, item := range choice.Items {
			if k := first(t.views(item), "type"); k == nil || k.Text != "null" {
				list = append(list, item)
			}
		}
		return list
	}
	return nil
}

// variants adds the rows of each alternative of a choice among objects.
func (t *table) variants(views []*source.Node, path string, depth int, open []*source.Node) {
	list := t.alternatives(views)
	if len(list) < 2 {
		return
	}
	for _, item := range list {
		inner := t.views(item)
		if !slices.ContainsFunc(inner, func(v *source.Node) bool { return v.Get("properties") != nil }) {
			continue
		}
		name := t.variantName(item, inner)
		t.rows = append(t.rows, Row{Path: path, Depth: depth, Variant: name, Within: t.variant})
		around := t.variant
		t.variant += "/" + path + " " + name
		t.members(inner, path, depth+1, open)
		t.variant = around
	}
}

// variantName tells one alternative from the others: by a constant member, or by its name.
func (t *table) variantName(item *source.Node, views []*source.Node) string {
	for _, v := range views {
		for _, m := range membersOf(v, "properties") {
			c := first(t.views(m.Value), "const")
			if e := first(t.views(m.Value), "enum"); c == nil && e != nil && len(e.Items) == 1 {
				c = e.Items[0]
			}
			if c != nil {
				return "when " + m.Key + " is " + string(c.JSON())
			}
		}
	}
	if ref := item.Get("$ref"); ref != nil {
		return "or " + ref.Text[strings.LastIndexByte(ref.Text, '/')+1:]
	}
	if title := item.Get("title"); title != nil {
		return "or " + title.Text
	}
	return "or"
}
