package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
)

// rounds limits the number of attempts. Each round corrects or omits everything that it finds.
const rounds = 100

// mend loads and types the file repeatedly. It corrects problems if that does not change published content, and
// otherwise omits the affected events and shared schemas.
func (w *writer) mend() error {
	for range rounds {
		if w.empty() {
			return nil
		}
		errs, root := w.try()
		places, open := index(root), 0
		untooled := map[*draft]source.Diagnostic{}
		bad := map[*draft]string{}
		for _, d := range w.all() {
			d.fresh = map[*source.Node]bool{}
		}
		for _, problem := range errs {
			d, rest, key := w.owner(root, places[problem.Range])
			if slices.Contains(toolCodes, problem.Code) {
				if d != nil && d.retool(w, problem.Code) {
					open++
				} else if d != nil {
					untooled[d] = problem
				}
				continue
			}
			open++
			if d == nil {
				return fmt.Errorf("the imported event types conflict: %s", problem.Message)
			}
			if bad[d] == "" && !w.solve(d, rest, key, problem) {
				bad[d] = problem.Message
			}
		}
		if open == 0 {
			for _, d := range w.all() {
				if problem, ok := untooled[d]; ok && !d.exact {
					problem.Range, problem.Severity = w.of(d.at), source.Warning
					w.found = append(w.found, problem)
				}
			}
			return nil
		}
		w.drop(bad)
	}
	return errors.New("the imported event types conflict, and the import cannot resolve that; import fewer of them")
}

// toolCodes lists the errors of read tools. An event with an unsolved tool error stays, with a warning, because it
// works without the tool.
var toolCodes = []string{"MCPE221", "MCPE222"}

// empty reports whether no draft remains.
func (w *writer) empty() bool {
	return len(w.drafts) == 0 && w.doc.Tasks == nil && w.doc.Conversation == nil
}

// try returns the errors in the file of the drafts, and the parsed file.
func (w *writer) try() ([]source.Diagnostic, *source.Node) {
	loaded, found := load(w.file())
	if !source.HasErrors(found) {
		_, more := ir.Build(loaded, ir.Options{Package: "imported", Tools: true})
		found = append(found, more...)
	}
	return slices.DeleteFunc(found, func(d source.Diagnostic) bool { return d.Severity != source.Error }), loaded.Files[0].Root
}

// load reads an event file that refers only to itself.
func load(text []byte) (*schema.Set, []source.Diagnostic) {
	const name = "import.yaml"
	return schema.Load([]string{name}, schema.Options{ReadFile: func(path string) ([]byte, error) {
		if path == name {
			return text, nil
		}
		return nil, errors.New("an imported schema refers to nothing but itself")
	}})
}

// A spot identifies a node of the tried file by its pointer and key.
type spot struct{ pointer, key string }

// index maps ranges of values and keys to nodes. If two nodes share a range, the outer one wins.
func index(root *source.Node) map[source.Range]spot {
	out := map[source.Range]spot{}
	add := func(at source.Range, s spot) {
		if _, known := out[at]; !known {
			out[at] = s
		}
	}
	var visit func(n *source.Node, pointer string)
	visit = func(n *source.Node, pointer string) {
		for _, m := range n.Members {
			below := pointer + "/" + source.EscapeToken(m.Key)
			add(m.KeyRange, spot{below, m.Key})
			add(m.Value.Range, spot{below, m.Key})
			visit(m.Value, below)
		}
		for i, item := range n.Items {
			below := fmt.Sprintf("%s/%d", pointer, i)
			add(item.Range, spot{below, ""})
			visit(item, below)
		}
	}
	visit(root, "")
	return out
}

// owner returns the draft that contains a spot of the file, and the tokens below it. Without a draft it returns nil.
func (w *writer) owner(root *source.Node, at spot) (d *draft, rest []string, key string) {
	tokens, _ := source.SplitPointer(at.pointer)
	if len(tokens) < 2 {
		return nil, nil, ""
	}
	switch tokens[0] {
	case "schemas":
		return w.shared[tokens[1]], tokens[2:], at.key
	case "events":
		name := root.Lookup("/events/" + tokens[1]).Get("name").Text
		if i := slices.IndexFunc(w.drafts, func(d *draft) bool { return d.name == name }); i >= 0 {
			return w.drafts[i], tokens[2:], at.key
		}
	}
	return nil, nil, ""
}

// drop omits drafts for the given reason. The next round omits events that refer to an omitted schema, so drop
// records the reason by the name of the schema.
func (w *writer) drop(bad map[*draft]string) {
	w.drafts = slices.DeleteFunc(w.drafts, func(d *draft) bool {
		if why, drop := bad[d]; drop {
			for name, because := range w.dropped {
				if strings.Contains(why, "/schemas/"+name) {
					why = fmt.Sprintf("its schema %s cannot be used: %s", name, because)
					break
				}
			}
			w.leaveOut(d.at, d.name, why)
			return true
		}
		return false
	})
	w.order = slices.DeleteFunc(w.order, func(name string) bool {
		why, drop := bad[w.shared[name]]
		if drop {
			w.dropped[name] = why
			delete(w.shared, name)
		}
		return drop
	})
}

// solve changes a draft to correct a finding at a place below it, and reports whether it could.
func (w *writer) solve(d *draft, rest []string, key string, problem source.Diagnostic) bool {
	pointer := ""
	for _, t := range rest {
		pointer += "/" + source.EscapeToken(t)
	}
	n := d.node.Lookup(pointer)
	switch {
	case problem.Code == "MCPE135" && problem.Hint == schema.AddObject && n != nil && n.Kind == source.Object && n.Get("type") == nil:
		w.changed(d.at, d, "its %s does not say that it describes an object; type: object is added", key)
		n.Members = append([]source.Member{{Key: "type", Value: yaml.Text("object")}}, n.Members...)
		return true
	case problem.Code == "MCPE206" && d.shared && len(rest) == 0:
		return d.rename(d.node, ir.GoName(d.name))
	case problem.Code == "MCPE206" && !d.shared && len(rest) == 1 && rest[0] == "name":
		return d.rename(d.node, ir.GoName(d.name))
	case problem.Code != "MCPE206" && strings.HasPrefix(problem.Code, "MCPE2"):
		return (d.shared || len(rest) > 0) && d.untype(rest, ir.RawMessage.String())
	case problem.Code == "MCPE206" && len(rest) > 1 && rest[len(rest)-2] == "enum" && n != nil && n.Kind != source.Object:
		as := "string"
		for _, v := range d.node.Lookup(pointer[:strings.LastIndexByte(pointer, '/')]).Items {
			if v.Kind != source.String {
				as = ir.RawMessage.String()
			}
		}
		return d.untype(rest[:len(rest)-2], as)
	case problem.Code == "MCPE161" && !d.exact:
		w.changed(d.at, d, "x-coalesce is left out: %s", problem.Message)
		d.node.Members = slices.DeleteFunc(d.node.Members, func(m source.Member) bool { return m.Key == "x-coalesce" })
		return true
	case problem.Code == "MCPE164" && !d.exact:
		w.changed(d.at, d, "x-actor is left out: %s", problem.Message)
		d.node.Members = slices.DeleteFunc(d.node.Members, func(m source.Member) bool { return m.Key == "x-actor" })
		return true
	case n == nil || n.Kind != source.Object:
		return false
	case problem.Code == "MCPE206" && key == "":
		return d.rename(n, "Variant")
	case problem.Code == "MCPE206":
		return d.rename(n, ir.GoName(key))
	}
	return false
}
