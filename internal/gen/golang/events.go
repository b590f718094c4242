package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
)

// declareEvent declares the name, the arguments and the payload of an event type, and the type of its occurrences.
func (f *file) declareEvent(e *ir.Event) {
	if e.NameConst != "" {
		f.addDoc(e.NameConst + " is the name of the event type.")
		f.Const().Id(e.NameConst).Op("=").Add(stringLiteral(e.Schema.Name))
	}
	f.declareTypes(e.Decls)
	if e.EventAlias != "" {
		f.addDoc(e.EventAlias + " is an occurrence of " + e.Schema.Name + " as a client receives it.")
		f.Type().Id(e.EventAlias).Op("=").Qual(eventsPath, "Event").Types(f.eventTypes(e)...)
	}
}

// eventName returns code for the name of the event type: a constant if the types' package declares one, or a literal.
func (f *file) eventName(e *ir.Event) *jen.Statement {
	if e.NameConst != "" {
		return f.declared(e.NameConst)
	}
	return stringLiteral(e.Schema.Name)
}

// eventTypes returns the arguments and the payload of an event type as type arguments.
func (f *file) eventTypes(e *ir.Event) []jen.Code {
	return []jen.Code{f.declared(e.Arguments.Name), f.declared(e.Payload.Name)}
}

// occurrence returns the type of a received event.
func (f *file) occurrence(e *ir.Event) *jen.Statement {
	if e.EventAlias != "" {
		return f.declared(e.EventAlias)
	}
	return jen.Qual(eventsPath, "Event").Types(f.eventTypes(e)...)
}

// describeCall returns a call that loads the description of the event type.
func (f *file) describeCall(e *ir.Event) *jen.Statement {
	return jen.Id(schemasVar).Dot("Describe").Call(f.eventName(e))
}

// eventDoc adds the doc comment of a function, with the event's stability and deprecation. Only client code uses Go's
// deprecation marker, because servers must support the event type until it is removed.
func (f *file) eventDoc(s *schema.Event, marker, first string) {
	lines := []string{first}
	if s.Stability == "experimental" {
		lines = paragraph(lines, "The event type is experimental: it may change or be removed.")
	}
	if d := s.Deprecated; d != nil {
		why := "the event type will be removed"
		if d.ReplacedBy != "" {
			why = "use " + d.ReplacedBy
		}
		if d.RemoveAfter != "" {
			why += "; it will be removed after " + d.RemoveAfter
		}
		lines = paragraph(lines, marker+oneLine(why)+".")
	}
	f.addDoc(lines...)
}
