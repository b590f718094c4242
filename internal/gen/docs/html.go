package docs

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"html/template"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

//go:embed page.css
var style string

//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"style":      func() template.CSS { return template.CSS(style) },
	"json":       highlightJSON,
	"paragraphs": splitParagraphs,
	"first":      firstSentence,
	"svg": func(m Mode) template.HTML {
		return template.HTML(m.Diagram.SVG("diagram-"+m.Name, "How "+m.Name+" delivers"))
	},
	"table": func(label string, rows []Row) tableView { return tableView{label, rows} },
	"breaks": func(s string) template.HTML { // allow line breaks at the dots of long names
		return template.HTML(strings.ReplaceAll(html.EscapeString(s), ".", ".<wbr/>"))
	},
}).Parse(pageText))

type tableView struct {
	Label string
	Rows  []Row
}

// HTML writes the page as one self-contained document. It uses no scripts and loads no fonts or other resources.
func (p *Page) HTML() ([]byte, error) {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("writing the page: %w", err)
	}
	return []byte(source.Visible(b.String())), nil
}

// highlightJSON returns indented JSON with syntax highlighting.
func highlightJSON(raw []byte) template.HTML {
	n, found := source.Parse("example", raw)
	if source.HasErrors(found) {
		return template.HTML(html.EscapeString(string(raw)))
	}
	var b strings.Builder
	highlight(&b, n, "")
	return template.HTML(b.String())
}

func highlight(b *strings.Builder, n *source.Node, margin string) {
	mark := func(class string, text []byte) {
		fmt.Fprintf(b, `<span class="%s">%s</span>`, class, html.EscapeString(string(text)))
	}
	switch n.Kind {
	case source.Array, source.Object:
		open, end := "{", "}"
		if n.Kind == source.Array {
			open, end = "[", "]"
		}
		b.WriteString(open)
		size := len(n.Items) + len(n.Members)
		for i := range size {
			b.WriteString("\n" + margin + "  ")
			if n.Kind == source.Array {
				highlight(b, n.Items[i], margin+"  ")
			} else {
				mark("k", schematree.AppendString(nil, n.Members[i].Key))
				b.WriteString(": ")
				highlight(b, n.Members[i].Value, margin+"  ")
			}
			if i < size-1 {
				b.WriteByte(',')
			}
		}
		if size > 0 {
			b.WriteString("\n" + margin)
		}
		b.WriteString(end)
	case source.String:
		mark("s", n.JSON())
	default:
		mark("n", n.JSON())
	}
}
