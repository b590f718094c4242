package golang

import (
	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
)

// event writes an event type: its name, its types, and what servers and clients get.
func (w *writer) event(e *ir.Event) {
	if e.NameConst != "" {
		w.doc(e.NameConst + " is the name of the event type.")
		w.line("const ", e.NameConst, " = ", text(e.Schema.Name))
	}
	for _, d := range e.Decls {
		w.decl(d)
	}
	if w.options.Server {
		w.server(e)
	}
	if w.options.Client {
		w.subscribe(e)
	}
}

// nameCode is the name of the event type, by its constant if there is one.
func nameCode(e *ir.Event) string {
	if e.NameConst != "" {
		return e.NameConst
	}
	return text(e.Schema.Name)
}

// described is the description of the event type, which is read when it is evaluated.
func described(e *ir.Event) string { return schemasVar + ".Describe(" + nameCode(e) + ")" }

// eventDoc begins a function with a comment that has the event's stability and deprecation. Only
// clients are told with Go's own marker: servers go on offering the type until it is removed.
func (w *writer) eventDoc(s *schema.Event, marker, first string) {
	lines := []string{first}
	if s.Stability == "experimental" {
		lines = paragraph(lines, "The event type is experimental: it may change or go away.")
	}
	if d := s.Deprecated; d != nil {
		why := "the event type is going away"
		if d.ReplacedBy != "" {
			why = "use " + d.ReplacedBy
		}
		if d.RemoveAfter != "" {
			why += "; it is removed after " + d.RemoveAfter
		}
		lines = paragraph(lines, marker+oneLine(why)+".")
	}
	w.doc(lines...)
}
