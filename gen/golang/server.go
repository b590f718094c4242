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
		check = jen.Qual(serverImplPath, "NewCheck").Call(jen.Id("c"), jen.Id(x+"Checker").Dot("Check"+x))
	}
	params = append(params, jen.Id("h").Id(x+"Hooks"), jen.Id("o").Op("...").Qual(serverPath, "TypeOption"))
	hooks := jen.Qual(serverImplPath, "NewHooks").Call(jen.Op("&").Id("h"))
	call := jen.Qual(serverImplPath, "Register").Call(jen.Id("s"), jen.Id(schemasVar), nameCode(e), check, hooks, jen.Id("o"))

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
	untyped := func() *jen.Statement { return jen.Qual(serverImplPath, "Emitter") }
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

// subscribe writes what clients get: the occurrence, the subscription and the function that makes it.
func (w *writer) subscribe(e *ir.Event) {
	x := e.Prefix
	types := []jen.Code{jen.Id(e.Arguments.Name), jen.Id(e.Payload.Name)}
	event := jen.Qual(eventsPath, "Event").Types(types...)
	if e.EventAlias != "" {
		w.add(comment(e.EventAlias+" is an occurrence of "+e.Schema.Name+" as a client receives it."),
			jen.Type().Id(e.EventAlias).Op("=").Add(event))
		event = jen.Id(e.EventAlias)
	}
	subscription := jen.Qual(clientPath, "TypedSubscription").Types(types...)
	if e.SubscriptionType != "" {
		w.subscription(e, event)
		subscription = jen.Id(e.SubscriptionType)
	}
	w.add(eventDoc(e.Schema, "Deprecated: ", "Subscribe"+x+" subscribes to "+e.Schema.Name+"."),
		jen.Func().Id("Subscribe"+x).Params(
			jen.Id("ctx").Qual("context", "Context"),
			jen.Id("c").Op("*").Qual(clientPath, "Client"),
			jen.Id("args").Id(e.Arguments.Name),
			jen.Id("o").Op("...").Qual(clientPath, "SubscribeOption"),
		).Params(jen.Op("*").Add(subscription.Clone()), jen.Error()).Block(
			untyped("s", subscription, jen.Qual(clientImplPath, "Subscribe").Call(
				jen.Id("ctx"), jen.Id("c"), nameCode(e), text(e.Fingerprint), jen.Op("&").Id("args"), jen.Id("o")))...))
	w.add(eventDoc(e.Schema, "Deprecated: ", "Handle"+x+" binds f to the occurrences of "+e.Schema.Name+": see [client.Handle]."),
		jen.Func().Id("Handle"+x).Params(
			jen.Id("args").Id(e.Arguments.Name),
			jen.Id("f").Func().Params(jen.Qual("context", "Context"), jen.Op("*").Add(event.Clone())).Error(),
			jen.Id("o").Op("...").Qual(clientPath, "SubscribeOption"),
		).Qual(clientPath, "Binding").Block(
			jen.Return(jen.Qual(clientImplPath, "Handle").Call(
				nameCode(e), text(e.Fingerprint), jen.Op("&").Id("args"), jen.Id("f"), jen.Id("o")))))
}

// subscription writes the type that delivers. It is no instance of the generic client.TypedSubscription, and has
// only the methods that depend on the event type and Close, which makes it an io.Closer: the compiler makes each
// of them anew for each event type.
func (w *writer) subscription(e *ir.Event, event *jen.Statement) {
	name := e.SubscriptionType
	method := func(id string) *jen.Statement {
		return jen.Func().Params(jen.Id("s").Op("*").Id(name)).Id(id).Params()
	}
	base := func() *jen.Statement { return jen.Op("*").Qual(clientPath, "Subscription") }
	w.add(comment(name+" delivers the occurrences of "+e.Schema.Name+"."),
		jen.Type().Id(name).Qual(clientPath, "Subscription"))
	w.add(comment("Events iterates over what arrives: see [client.TypedSubscription.Events]."),
		method("Events").Qual("iter", "Seq2").Types(jen.Op("*").Add(event), jen.Error()).Block(
			jen.Return(jen.Qual(clientImplPath, "Events").Types(jen.Op("*").Add(event)).Call(jen.Parens(base()).Call(jen.Id("s"))))))
	w.add(comment("Close ends the subscription: see [client.Subscription.Close]."),
		method("Close").Error().Block(jen.Return(jen.Parens(base()).Call(jen.Id("s")).Dot("Close").Call())))
	w.add(comment("Subscription returns what does not depend on the event type: Ack, Cursor, Mode and Status."),
		method("Subscription").Add(base()).Block(jen.Return(jen.Parens(base()).Call(jen.Id("s")))))
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
