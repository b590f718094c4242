package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// declareServer declares the hooks, the emitter, the checker and the registration function of an event type.
func (f *file) declareServer(e *ir.Event) {
	emits, checks := e.Schema.Source != "check", e.Schema.Source == "check" || e.Schema.Source == "both"
	f.addDoc(e.Prefix + "Hooks customize " + e.Schema.Name + ".")
	f.Type().Id(e.Prefix+"Hooks").Op("=").Qual(serverPath, "Hooks").Types(f.eventTypes(e)...)
	if emits {
		f.declareEmitter(e)
	}
	if checks {
		f.declareChecker(e)
		f.declareYield(e)
	}
	f.declareRegister(e, emits, checks)
}

// declareEmitter declares the emitter type. It does not instantiate the generic server.Emitter, because the compiler
// would then create all methods twice for each payload type.
func (f *file) declareEmitter(e *ir.Event) {
	name, untyped := e.Prefix+"Emitter", jen.Qual(serverImplPath, "Emitter")
	f.addDoc(name + " emits " + e.Schema.Name + ".")
	f.Type().Id(name).Add(untyped)
	f.addDoc("Emit emits an occurrence: see [server.Emitter.Emit].")
	f.startMethod("e", pointer(jen.Id(name)), "Emit").Params(
		ctxParam(), jen.Id("p").Add(f.declared(e.Payload.Name)), jen.Id("o").Op("...").Qual(eventsPath, "EmitOption"),
	).Error().Block(
		jen.Return(convertPointer(untyped, "e").Dot("Emit").Call(jen.Id("ctx"), addressOf(jen.Id("p")), jen.Id("o"))),
	)
}

// declareChecker declares the interface that a server implements to check for new events upstream.
func (f *file) declareChecker(e *ir.Event) {
	name, method := e.Prefix+"Checker", "Check"+e.Prefix
	f.addDoc(name + " looks for occurrences of " + e.Schema.Name + " upstream.")
	f.Type().Id(name).InterfaceFunc(func(methods *jen.Group) {
		addComment(methods, method+" returns the occurrences after cursor, which is empty in the first call and later the cursor of an earlier page.")
		methods.Id(method).Params(
			ctxParam(), jen.Id("args").Add(f.declared(e.Arguments.Name)), jen.Id("cursor").String(),
		).Params(
			jen.Qual(eventsPath, "Page").Types(f.declared(e.Payload.Name)), jen.Error(),
		)
	})
}

// declareYield declares a function type that implements the checker interface by yielding events.
func (f *file) declareYield(e *ir.Event) {
	name, method := e.Prefix+"Yield", "Check"+e.Prefix
	params := []jen.Code{ctxParam(), jen.Id("args").Add(f.declared(e.Arguments.Name)), jen.Id("cursor").String()}
	payload := f.declared(e.Payload.Name)
	f.addDoc(name + " yields the occurrences of " + e.Schema.Name + " one by one: see [server.Yield].")
	f.Type().Id(name).Func().Params(params...).Qual("iter", "Seq2").Types(jen.Qual(eventsPath, "Found").Types(payload), jen.Error())
	f.addDoc(method + " implements [" + e.Prefix + "Checker].")
	f.startMethod("y", jen.Id(name), method).Params(params...).Params(jen.Qual(eventsPath, "Page").Types(payload), jen.Error()).Block(
		jen.Return(jen.Qual(serverPath, "Yield").Types(f.eventTypes(e)...).Call(jen.Id("y")).Dot("Check").Call(jen.Id("ctx"), jen.Id("args"), jen.Id("cursor"))),
	)
}

// declareRegister declares the function that registers the event type on a server.
func (f *file) declareRegister(e *ir.Event, emits, checks bool) {
	x := e.Prefix
	params, check := []jen.Code{jen.Id("s").Op("*").Qual(serverPath, "Server")}, jen.Nil()
	if checks {
		params = append(params, jen.Id("c").Id(x+"Checker"))
		check = jen.Qual(serverImplPath, "NewCheck").Call(jen.Id("c"), jen.Id(x+"Checker").Dot("Check"+x))
	}
	params = append(params, jen.Id("h").Id(x+"Hooks"), jen.Id("o").Op("...").Qual(serverPath, "TypeOption"))
	call := jen.Qual(serverImplPath, "Register").Call(
		jen.Id("s"), jen.Id(schemasVar), f.eventName(e), check, jen.Qual(serverImplPath, "NewHooks").Call(addressOf(jen.Id("h"))), jen.Id("o"))

	doc := "Register" + x + " adds " + e.Schema.Name + " to s"
	switch {
	case emits && checks:
		doc += ". Occurrences come from c and from the emitter"
	case checks:
		doc += ". Occurrences come from c"
	}
	f.eventDoc(e.Schema, "The event type is deprecated: ", doc+".")
	register := f.Func().Id("Register" + x).Params(params...)
	if emits {
		emitter := jen.Id(x + "Emitter")
		register.Params(pointer(emitter), jen.Error()).Block(untypedBody("e", emitter, call)...)
		return
	}
	register.Error().Block(
		jen.List(jen.Id("_"), jen.Err()).Op(":=").Add(call),
		jen.Return(jen.Err()),
	)
}

// untypedBody returns a function body that calls a non-generic runtime function and converts the resulting pointer. The
// compiler would create a copy of a generic function for each event type.
func untypedBody(name string, to jen.Code, call jen.Code) []jen.Code {
	return []jen.Code{
		jen.List(jen.Id(name), jen.Err()).Op(":=").Add(call),
		jen.Return(convertPointer(to, name), jen.Err()),
	}
}
