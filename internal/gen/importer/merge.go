package importer

import (
	"net/url"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// Merge merges the event files of a set into one document. It makes the names of shared schemas unique, and converts
// references between files to references to shared schemas. It calls text to read the comments of a file, and keeps
// them with their event type or schema. If text is nil, Merge omits comments.
func Merge(set *schema.Set, text func(path string) ([]byte, error)) Document {
	m := &merger{set: set, names: map[*schema.Entry]string{}, tops: map[*source.Node]*schema.Entry{}}
	taken := map[string]bool{}
	var doc Document
	for i, f := range set.Files {
		if i == 0 || doc.Package == "" {
			doc.Package = f.Package
		} else if f.Package != "" && f.Package != doc.Package {
			doc.Package = ""
			break
		}
	}
	for _, f := range set.Files {
		for _, e := range f.Schemas {
			m.names[e], m.tops[e.Node] = UniqueName(e.Name, "_", taken), e
		}
		for _, e := range f.Events {
			m.tops[e.Input], m.tops[e.Payload] = nil, nil
		}
		for _, t := range f.Tasks {
			m.addParts(t.Node)
		}
		if n := f.Root.Get("conversation"); n != nil {
			m.addParts(n)
		}
	}
	for _, f := range set.Files {
		comments := fileComments(f, text)
		doc.Comments = append(doc.Comments, comments.of(f.Root)...)
		for _, e := range f.Schemas {
			n := m.copyTopLevel(e.Node)
			if m.names[e] != e.Name && n.Kind == source.Object && n.Get("x-go-name") == nil {
				yaml.Set(n, "x-go-name", yaml.Text(ir.GoName(e.Name)))
			}
			doc.Schemas = append(doc.Schemas, Schema{Name: m.names[e], Node: n, Own: true, Comments: comments.of(e.Node)})
		}
		for _, e := range f.Events {
			out := Event{Node: m.copy(e.Node), Comments: comments.of(e.Node)}
			if e.Actor != "" {
				removeNotBy(out.Node)
			}
			out.Name = e.Name
			doc.Events = append(doc.Events, out)
		}
		for _, t := range f.Tasks {
			if doc.Tasks == nil {
				doc.Tasks = yaml.List()
			}
			doc.Tasks.Items = append(doc.Tasks.Items, m.copy(t.Node))
		}
		if n := f.Root.Get("conversation"); n != nil && f.Conversation != nil {
			doc.Conversation = m.copy(n)
		}
	}
	return doc
}

type merger struct {
	set   *schema.Set
	names map[*schema.Entry]string
	// tops maps each top-level schema to its entry. The entry is nil for schemas outside the section schemas.
	tops map[*source.Node]*schema.Entry
}

// addParts adds the schemas of a task or the conversation to tops.
func (m *merger) addParts(n *source.Node) {
	for _, member := range n.Members {
		if strings.HasSuffix(member.Key, "Schema") || member.Key == "context" {
			m.tops[member.Value] = nil
		}
	}
}

// topLevelOf returns the top-level schema that contains n.
func (m *merger) topLevelOf(n *source.Node) *source.Node {
	for ; n != nil; n = n.Parent {
		if _, ok := m.tops[n]; ok {
			return n
		}
	}
	return nil
}

// copyTopLevel copies a top-level schema. If a draft-07 schema has no $schema, copyTopLevel adds it.
func (m *merger) copyTopLevel(n *source.Node) *source.Node {
	out := m.copy(n)
	if n.Kind == source.Object && m.set.RefAlone(n) && n.Get("$schema") == nil {
		out.Members = append([]source.Member{{Key: "$schema", Value: yaml.Text(schematree.Draft07URI)}}, out.Members...)
	}
	return out
}

func (m *merger) copy(n *source.Node) *source.Node {
	out := &source.Node{Kind: n.Kind, Text: n.Text}
	for _, member := range n.Members {
		v := member.Value
		_, top := m.tops[v]
		k, known := schematree.Any.Keyword(member.Key)
		switch {
		case member.Key == "$ref" && v.Kind == source.String:
			v = yaml.Text(m.mergedReference(n, v))
		case member.Key == "discriminator" && v.Get("mapping") != nil:
			d := m.copy(v)
			mapping := d.Member("mapping").Value
			for i, e := range v.Get("mapping").Members {
				if strings.Contains(e.Value.Text, "#") {
					mapping.Members[i].Value = yaml.Text(m.mergedReference(n, e.Value))
				}
			}
			v = d
		case top:
			v = m.copyTopLevel(v)
		case known:
			v = source.CopySchemas(k, v, m.copy)
		default: // of an event type or a task
			v = m.copy(v)
		}
		out.Members = append(out.Members, source.Member{Key: member.Key, Value: v})
	}
	for _, item := range n.Items {
		out.Items = append(out.Items, m.copy(item))
	}
	return out
}

// mergedReference returns a reference in the merged file that corresponds to text.
func (m *merger) mergedReference(at, text *source.Node) string {
	t, d := m.set.ResolveText(at, text)
	if d != nil {
		return text.Text
	}
	to := m.topLevelOf(t.Node)
	if to == m.topLevelOf(at) && strings.HasPrefix(text.Text, "#") && !strings.HasPrefix(text.Text, "#/schemas/") {
		return text.Text
	}
	if e := m.tops[to]; to != nil && e != nil {
		return "#/schemas/" + m.names[e] + (&url.URL{Fragment: t.Node.PointerFrom(e.Node)}).EscapedFragment()
	}
	return text.Text
}

// comments maps the node of an event, a schema or a file to its comments.
type comments map[*source.Node][]string

func (c comments) of(n *source.Node) []string { return c[n] }

// fileComments returns the comments of a file. It assigns each comment to the event type or shared schema that contains
// or follows it.
func fileComments(f *schema.File, text func(path string) ([]byte, error)) comments {
	out := comments{}
	if text == nil || f.Document {
		return out
	}
	data, err := text(f.Path)
	if err != nil {
		return out
	}
	type item struct {
		line int
		node *source.Node
	}
	var items []item
	for _, e := range f.Schemas {
		items = append(items, item{e.NameRange.Start.Line, e.Node})
	}
	for _, e := range f.Events {
		items = append(items, item{e.Node.Range.Start.Line, e.Node})
	}
	slices.SortStableFunc(items, func(a, b item) int { return a.line - b.line })
	for _, c := range source.Comments(f.Root, data) {
		line, to := c.Range.Start.Line, f.Root
		for i, it := range items {
			above := c.Alone && it.line > line && (i == 0 || !containsLine(items[i-1].node, line)) && (i > 0 || line > firstSection(f.Root))
			if above {
				to = it.node
				break
			}
			if it.line <= line {
				to = it.node
			}
		}
		out[to] = append(out[to], c.Text)
	}
	return out
}

// containsLine reports whether a line is not after the last line of n.
func containsLine(n *source.Node, line int) bool {
	last := n.Range.Start.Line
	walk(n, func(n *source.Node) { last = max(last, n.Range.Start.Line) })
	return line <= last
}

// firstSection returns the line of the key schemas or events, whichever comes first. Comments above that line apply to
// the file.
func firstSection(root *source.Node) int {
	for _, m := range root.Members {
		if m.Key == "schemas" || m.Key == "events" {
			return m.KeyRange.Start.Line
		}
	}
	return 0
}
