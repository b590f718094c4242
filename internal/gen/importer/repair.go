package importer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// maxRounds is the maximum number of rounds in repair. Each round corrects all errors or omits the affected drafts.
const maxRounds = 100

// repair repeatedly checks the file until it has no errors. It corrects an error if the correction does not change
// published content. Otherwise, it omits the affected event or shared schema. If nothing remains, the error is ErrNothing.
func (w *writer) repair() error {
	for range maxRounds {
		if len(w.drafts) == 0 && w.doc.Tasks == nil && w.doc.Conversation == nil {
			return ErrNothing
		}
		errs, root := w.checkFile()
		places, open := indexByRange(root), 0
		untooled := map[*draft]source.Diagnostic{}
		bad := map[*draft]string{}
		for _, d := range w.allDrafts() {
			d.retyped = map[*source.Node]bool{}
		}
		for _, problem := range errs {
			d, rest, key := w.draftAt(root, places[problem.Range])
			if slices.Contains(toolCodes, problem.Code) {
				if d != nil && d.fixTool(w, problem.Code) {
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
			if bad[d] == "" && !w.fixError(d, rest, key, problem) {
				bad[d] = problem.Message
			}
		}
		if open == 0 {
			for _, d := range w.allDrafts() {
				if problem, ok := untooled[d]; ok && !d.isExact {
					problem.Range, problem.Severity = w.knownRange(d.at), source.Warning
					w.found = append(w.found, problem)
				}
			}
			return nil
		}
		w.omitDrafts(bad)
	}
	return errors.New("the imported event types conflict, and the import cannot resolve that; import fewer of them")
}

// toolCodes lists the codes of errors in read tools. An uncorrectable error of this kind causes only a warning, because
// the event works without the tool.
var toolCodes = []string{"MCPE221", "MCPE222"}

// checkFile renders, loads and builds the file. It returns the errors and the parsed file.
func (w *writer) checkFile() ([]source.Diagnostic, *source.Node) {
	loaded, found := load(w.render())
	if !source.HasErrors(found) {
		_, more := ir.Build(loaded, ir.Options{Package: "imported", Tools: true})
		found = append(found, more...)
	}
	return slices.DeleteFunc(found, func(d source.Diagnostic) bool { return d.Severity != source.Error }), loaded.Files[0].Root
}

// load loads an event file from memory. The file must not refer to other files.
func load(text []byte) (*schema.Set, []source.Diagnostic) {
	const name = "import.yaml"
	return schema.Load([]string{name}, schema.Options{ReadFile: func(path string) ([]byte, error) {
		if path == name {
			return text, nil
		}
		return nil, errors.New("an imported schema refers to nothing but itself")
	}})
}

// indexByRange maps the range of each value and key to its node. If two nodes have the same range, it uses the outer one.
func indexByRange(root *source.Node) map[source.Range]*source.Node {
	out := map[source.Range]*source.Node{}
	walk(root, func(n *source.Node) {
		_, key := n.Key()
		for _, at := range []source.Range{key, n.Range} {
			if out[at] == nil {
				out[at] = n
			}
		}
	})
	return out
}

// draftAt returns the draft that contains a node, and the path from the draft to the node. If no draft contains the
// node, it returns nil.
func (w *writer) draftAt(root, n *source.Node) (d *draft, rest []string, key string) {
	n = cmp.Or(n, root)
	tokens, _ := wire.SplitPointer(n.Pointer())
	if len(tokens) < 2 {
		return nil, nil, ""
	}
	key, _ = n.Key()
	switch tokens[0] {
	case "schemas":
		return w.shared[tokens[1]], tokens[2:], key
	case "events":
		name := root.Lookup("/events/" + tokens[1]).Get("name").Text
		if i := slices.IndexFunc(w.drafts, func(d *draft) bool { return d.name == name }); i >= 0 {
			return w.drafts[i], tokens[2:], key
		}
	}
	return nil, nil, ""
}

// omitDrafts omits the drafts in bad, which maps them to reasons. It records the reasons for omitted schemas, because
// the next round omits the events that refer to these schemas.
func (w *writer) omitDrafts(bad map[*draft]string) {
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

// addedKeys maps the codes of errors to the keys that Write adds to event types.
var addedKeys = map[string]string{"MCPE161": "x-coalesce", "MCPE164": "x-actor"}

// fixError tries to correct an error in a draft and reports whether it succeeded. rest is the path of the error within
// the draft.
func (w *writer) fixError(d *draft, rest []string, key string, problem source.Diagnostic) bool {
	n := d.node.Lookup(wire.Pointer(rest...))
	switch {
	case problem.Code == "MCPE135" && problem.Hint == schema.AddObject && n != nil && n.Kind == source.Object && n.Get("type") == nil:
		w.changed(d.at, d, "its %s does not say that it describes an object; type: object is added", key)
		n.Members = append([]source.Member{{Key: "type", Value: yaml.Text("object")}}, n.Members...)
		return true
	case problem.Code == "MCPE206" && (d.shared && len(rest) == 0 || !d.shared && slices.Equal(rest, []string{"name"})):
		return d.rename(d.node, ir.GoName(d.name))
	case problem.Code != "MCPE206" && strings.HasPrefix(problem.Code, "MCPE2"):
		return (d.shared || len(rest) > 0) && d.addGoType(rest, ir.RawMessage.String())
	case problem.Code == "MCPE206" && len(rest) > 1 && rest[len(rest)-2] == "enum" && n != nil && n.Kind != source.Object:
		as := "string"
		for _, v := range d.node.Lookup(wire.Pointer(rest[:len(rest)-1]...)).Items {
			if v.Kind != source.String {
				as = ir.RawMessage.String()
			}
		}
		return d.addGoType(rest[:len(rest)-2], as)
	case addedKeys[problem.Code] != "" && !d.isExact:
		w.changed(d.at, d, "%s is left out: %s", addedKeys[problem.Code], problem.Message)
		d.node.Members = slices.DeleteFunc(d.node.Members, func(m source.Member) bool { return m.Key == addedKeys[problem.Code] })
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
