package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// server writes the hooks, the emitter, the checker and the registration of an event type.
func (w *writer) server(e *ir.Event) {
	x, name := e.Prefix, e.Schema.Name
	emits, checks := e.Schema.Source != "check", e.Schema.Source == "check" || e.Schema.Source == "both"

	w.add(comment(x+"Hooks customize "+name+"."),
		jen.Type().Id(x+"Hooks").Op("=").Qual(serverPath, "Hooks").Types(jen.Id(e.Arguments.Name), jen.Id(e.Payload.Name)))
	if emits {
		w.emitter(e)
	}
	params := []jen.Code{jen.Id("s").Op("*").Qual(serverPath, "Server")}
	first, check := "Register"+x+" adds "+name+" to s.", jen.Nil()
	if checks {
		w.checker(e)
		first = "Register" + x + " adds " + name + " to s, which asks c for occurrences."
		params = append(params, jen.Id("c").Id(x+"Checker"))
		check = jen.Qual(serverPath, "NewUntypedCheck").Call(jen.Id("c"), jen.Id(x+"Checker").Dot("Check"+x))
	}
	params = append(params, jen.Id("h").Id(x+"Hooks"), jen.Id("o").Op("...").Qual(serverPath, "TypeOption"))
	call := jen.Qual(serverPath, "RegisterUntyped").Call(
		jen.Id("s"), jen.Id(schemasVar), nameCode(e), check, jen.Qual(serverPath, "NewUntypedHooks").Call(jen.Op("&").Id("h")), jen.Id("o"))

	result, body := jen.Error(), []jen.Code{jen.List(jen.Id("_"), jen.Err()).Op(":=").Add(call), jen.Return(jen.Err())}
	if emits {
		result = jen.Params(jen.Op("*").Id(x+"Emitter"), jen.Error())
		body = untyped("e", jen.Id(x+"Emitter"), call)
	}
	if emits && checks {
		first = "Register" + x + " adds " + name + " to s, which asks c for occurrences beside those that are emitted."
	}
	w.add(eventDoc(e.Schema, "The event type is deprecated: ", first),
		jen.Func().Id("Register"+x).Params(params...).Add(result).Block(body...))
}

// emitter writes the type that emits. It is no instance of the generic server.Emitter, of which the compiler
// would make all methods twice for each payload.
func (w *writer) emitter(e *ir.Event) {
	name := e.Prefix + "Emitter"
	untyped := func() *jen.Statement { return jen.Qual(serverPath, "UntypedEmitter") }
	w.add(comment(name+" emits "+e.Schema.Name+"."), jen.Type().Id(name).Add(untyped()))
	w.add(comment("Emit emits an occurrence: see [server.Emitter.Emit]."),
		jen.Func().Params(jen.Id("e").Op("*").Id(name)).Id("Emit").Params(
			jen.Id("ctx").Qual("context", "Context"), jen.Id("p").Id(e.Payload.Name), jen.Id("o").Op("...").Qual(eventsPath, "EmitOption"),
		).Error().Block(
			jen.Return(jen.Parens(jen.Op("*").Add(untyped())).Call(jen.Id("e")).Dot("Emit").Call(jen.Id("ctx"), jen.Op("&").Id("p"), jen.Id("o")))))
}

// checker writes the interface of what looks for occurrences upstream.
func (w *writer) checker(e *ir.Event) {
	x := e.Prefix
	w.add(comment(x+"Checker looks for occurrences of "+e.Schema.Name+" upstream."),
		jen.Type().Id(x+"Checker").Interface(
			comment("Check"+x+" returns the occurrences after cursor, which is empty at first or what an earlier page gave."),
			jen.Id("Check"+x).Params(
				jen.Id("ctx").Qual("context", "Context"),
				jen.Id("args").Id(e.Arguments.Name),
				jen.Id("cursor").String(),
			).Params(jen.Qual(eventsPath, "Page").Types(jen.Id(e.Payload.Name)), jen.Error())))
}

// subscribe writes the client's function, and the names of what it gives.
func (w *writer) subscribe(e *ir.Event) {
	x := e.Prefix
	types := []jen.Code{jen.Id(e.Arguments.Name), jen.Id(e.Payload.Name)}
	if e.EventAlias != "" {
		w.add(comment(e.EventAlias+" is an occurrence of "+e.Schema.Name+" as a client receives it."),
			jen.Type().Id(e.EventAlias).Op("=").Qual(eventsPath, "Event").Types(types...))
	}
	subscription := jen.Qual(clientPath, "Subscription").Types(types...)
	if e.SubscriptionAlias != "" {
		w.add(comment(e.SubscriptionAlias+" delivers the occurrences of "+e.Schema.Name+"."),
			jen.Type().Id(e.SubscriptionAlias).Op("=").Add(subscription))
		subscription = jen.Id(e.SubscriptionAlias)
	}
	w.add(eventDoc(e.Schema, "Deprecated: ", "Subscribe"+x+" subscribes to "+e.Schema.Name+"."),
		jen.Func().Id("Subscribe"+x).Params(
			jen.Id("ctx").Qual("context", "Context"),
			jen.Id("c").Op("*").Qual(clientPath, "Client"),
			jen.Id("args").Id(e.Arguments.Name),
			jen.Id("o").Op("...").Qual(clientPath, "SubscribeOption"),
		).Params(jen.Op("*").Add(subscription.Clone()), jen.Error()).Block(
			untyped("s", subscription, jen.Qual(clientPath, "SubscribeUntyped").Call(
				jen.Id("ctx"), jen.Id("c"), nameCode(e), text(e.Fingerprint), jen.Op("&").Id("args"), jen.Id("o")))...))
}

// untyped is the body of a function that returns what an untyped function of the runtime made as a
// pointer to a type of the event type. A call of a generic function would be shorter to read, but has the
// compiler make a copy of it for each event type.
func untyped(name string, to *jen.Statement, call jen.Code) []jen.Code {
	return []jen.Code{
		jen.List(jen.Id(name), jen.Err()).Op(":=").Add(call),
		jen.Return(jen.Parens(jen.Op("*").Add(to)).Call(jen.Id(name)), jen.Err()),
	}
}
