package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// ingress writes what takes the webhooks of a service in: a struct of emitters and the handler that it makes.
func (w *writer) ingress(in *ir.Ingress) {
	title := in.Provider.Title
	if !in.Provider.Eventless {
		title = "webhooks of " + title
	}
	var fields, routes []jen.Code
	for _, e := range in.Events {
		fields = append(fields, jen.Id(e.Prefix).Op("*").Id(e.Prefix+"Emitter"))
		routes = append(routes, jen.Qual(ingressPath, "To").Call(
			jen.Id("in").Dot(e.Prefix), described(e), fromCode(e)))
	}
	w.add(comment(in.Name+" holds the emitters of what comes from "+title+", each of which is needed."),
		jen.Type().Id(in.Name).Struct(fields...))
	args := append([]jen.Code{jen.List(jen.Id("s"), jen.Id("o"))}, routes...)
	w.add(comment("Handler takes in "+title+" that s has verified, and emits what they tell."),
		jen.Func().Params(jen.Id("in").Id(in.Name)).Id("Handler").Params(
			jen.Id("s").Qual(ingressPath, "Service"), jen.Id("o").Qual(ingressPath, "Options"),
		).Params(jen.Op("*").Qual(ingressPath, "Handler"), jen.Error()).Block(
			jen.Return(jen.Qual(ingressPath, "NewHandler").Custom(
				jen.Options{Open: "(", Close: ")", Separator: ",", Multi: true}, args...))))
}

// fromCode is the `from:` of an event.
func fromCode(e *ir.Event) *jen.Statement {
	from := e.Schema.From
	members := []jen.Code{jen.Id("Provider").Op(":").Add(text(from.Provider))}
	for _, m := range []struct{ name, value string }{{"Event", from.Event}, {"Action", from.Action}, {"ID", from.ID}} {
		if m.value != "" {
			members = append(members, jen.Id(m.name).Op(":").Add(text(m.value)))
		}
	}
	if len(from.Fields) > 0 {
		var list []jen.Code
		for _, f := range from.Fields {
			field := []jen.Code{jen.Id("Target").Op(":").Add(text(f.Target)), jen.Id("Source").Op(":").Add(text(f.Source))}
			if f.Nullable {
				field = append(field, jen.Id("Nullable").Op(":").True())
			}
			list = append(list, jen.Values(field...))
		}
		members = append(members, jen.Id("Fields").Op(":").Index().Qual(ingressPath, "Field").Add(lines(list)))
	}
	return jen.Qual(ingressPath, "From").Values(members...)
}
