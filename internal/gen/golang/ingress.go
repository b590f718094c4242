package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// declareIngress declares a struct with the emitters for the webhooks of a service, and a method that returns the
// webhook handler.
func (f *file) declareIngress(in *ir.Ingress) {
	title := in.Provider.Title
	if !in.Provider.Eventless {
		title = "webhooks of " + title
	}
	f.addDoc(in.Name + " holds the emitters of the events that come from " + title + ". Each is required.")
	f.Type().Id(in.Name).StructFunc(func(fields *jen.Group) {
		for _, e := range in.Events {
			fields.Id(e.Prefix).Op("*").Id(e.Prefix + "Emitter")
		}
	})
	args := []jen.Code{jen.List(jen.Id("s"), jen.Id("o"))}
	for _, e := range in.Events {
		args = append(args, jen.Qual(ingressPath, "To").Call(jen.Id("in").Dot(e.Prefix), f.describeCall(e), ingressFrom(e)))
	}
	f.addDoc("Handler receives " + title + ", which s verifies, and emits their events.")
	f.startMethod("in", jen.Id(in.Name), "Handler").Params(
		jen.Id("s").Qual(ingressPath, "Service"), jen.Id("o").Qual(ingressPath, "Options"),
	).Params(
		jen.Op("*").Qual(ingressPath, "Handler"), jen.Error(),
	).Block(
		jen.Return(jen.Qual(ingressPath, "NewHandler").Add(multilineCall(args...))),
	)
}

// ingressFrom returns the `from:` of an event as code.
func ingressFrom(e *ir.Event) *jen.Statement {
	from := e.Schema.From
	members := []jen.Code{keyedElement("Provider", stringLiteral(from.Provider))}
	for _, m := range []struct{ name, value string }{{"Event", from.Event}, {"Action", from.Action}, {"ID", from.ID}} {
		if m.value != "" {
			members = append(members, keyedElement(m.name, stringLiteral(m.value)))
		}
	}
	if len(from.Fields) > 0 {
		var list []jen.Code
		for _, m := range from.Fields {
			parts := []jen.Code{keyedElement("Target", stringLiteral(m.Target)), keyedElement("Source", stringLiteral(m.Source))}
			if m.Nullable {
				parts = append(parts, keyedElement("Nullable", jen.True()))
			}
			list = append(list, jen.Values(parts...))
		}
		members = append(members, keyedElement("Fields", jen.Index().Qual(ingressPath, "Field").Add(multiline(list...))))
	}
	return jen.Qual(ingressPath, "From").Values(members...)
}
