package golang

import "github.com/mcpe-gen/mcpe-gen/gen/ir"

// server writes the hooks, the emitter, the checker and the registration of an event type.
func (w *writer) server(e *ir.Event) {
	x, name := e.Prefix, e.Schema.Name
	emits, checks := e.Schema.Source != "check", e.Schema.Source == "check" || e.Schema.Source == "both"

	w.doc(x + "Hooks customize " + name + ".")
	w.line("type ", x, "Hooks = ", w.qual(serverPath, "Hooks"), "[", e.Arguments.Name, ", ", e.Payload.Name, "]")
	if emits {
		w.emitter(e)
	}
	params := "s *" + w.qual(serverPath, "Server")
	first, check := "Register"+x+" adds "+name+" to s.", "nil"
	if checks {
		w.checker(e)
		first = "Register" + x + " adds " + name + " to s, which asks c for occurrences."
		params += ", c " + x + "Checker"
		check = w.qual(serverImplPath, "NewCheck") + "(c, " + x + "Checker.Check" + x + ")"
	}
	params += ", h " + x + "Hooks, o ..." + w.qual(serverPath, "TypeOption")
	call := w.qual(serverImplPath, "Register") + "(s, " + schemasVar + ", " + nameCode(e) + ", " + check + ", " +
		w.qual(serverImplPath, "NewHooks") + "(&h), o)"

	result, body := "error", []string{"_, err := " + call, "return err"}
	if emits {
		result, body = "(*"+x+"Emitter, error)", untyped("e", x+"Emitter", call)
	}
	if emits && checks {
		first = "Register" + x + " adds " + name + " to s, which asks c for occurrences beside those that are emitted."
	}
	w.eventDoc(e.Schema, "The event type is deprecated: ", first)
	w.function("Register"+x+"("+params+") "+result, body...)
}

// emitter writes the type that emits. It is no instance of the generic server.Emitter, of which the compiler
// would make all methods twice for each payload.
func (w *writer) emitter(e *ir.Event) {
	name, untyped := e.Prefix+"Emitter", w.qual(serverImplPath, "Emitter")
	w.doc(name + " emits " + e.Schema.Name + ".")
	w.line("type ", name, " ", untyped)
	w.doc("Emit emits an occurrence: see [server.Emitter.Emit].")
	w.function("(e *"+name+") Emit(ctx "+w.qual("context", "Context")+", p "+e.Payload.Name+", o ..."+w.qual(eventsPath, "EmitOption")+") error",
		"return (*"+untyped+")(e).Emit(ctx, &p, o)")
}

// checker writes the interface of what looks for occurrences upstream.
func (w *writer) checker(e *ir.Event) {
	x := e.Prefix
	w.doc(x + "Checker looks for occurrences of " + e.Schema.Name + " upstream.")
	w.line("type ", x, "Checker interface {")
	w.comment("Check" + x + " returns the occurrences after cursor, which is empty in the first call and later the cursor of an earlier page.")
	w.line("Check", x, "(ctx ", w.qual("context", "Context"), ", args ", e.Arguments.Name, ", cursor string) (",
		w.qual(eventsPath, "Page"), "[", e.Payload.Name, "], error)")
	w.line("}")
}

// subscribe writes what clients get: the occurrence, the subscription and the function that makes it.
func (w *writer) subscribe(e *ir.Event) {
	x, types := e.Prefix, "["+e.Arguments.Name+", "+e.Payload.Name+"]"
	event, subscription := e.EventAlias, e.SubscriptionType
	if event == "" {
		event = w.qual(eventsPath, "Event") + types
	} else {
		w.doc(event + " is an occurrence of " + e.Schema.Name + " as a client receives it.")
		w.line("type ", event, " = ", w.qual(eventsPath, "Event"), types)
	}
	if subscription == "" {
		subscription = w.qual(clientPath, "TypedSubscription") + types
	} else {
		w.subscription(e, event)
	}
	ctx, options := w.qual("context", "Context"), "o ..."+w.qual(clientPath, "SubscribeOption")
	w.eventDoc(e.Schema, "Deprecated: ", "Subscribe"+x+" subscribes to "+e.Schema.Name+".")
	w.function("Subscribe"+x+"(ctx "+ctx+", c *"+w.qual(clientPath, "Client")+", args "+e.Arguments.Name+", "+options+") (*"+subscription+", error)",
		untyped("s", subscription, w.qual(clientImplPath, "Subscribe")+"(ctx, c, "+nameCode(e)+", "+text(e.Fingerprint)+", &args, o)")...)
	w.eventDoc(e.Schema, "Deprecated: ", "Handle"+x+" binds f to the occurrences of "+e.Schema.Name+": see [client.Handle].")
	w.function("Handle"+x+"(args "+e.Arguments.Name+", f func("+ctx+", *"+event+") error, "+options+") "+w.qual(clientPath, "Binding"),
		"return "+w.qual(clientImplPath, "Handle")+"("+nameCode(e)+", "+text(e.Fingerprint)+", &args, f, o)")
}

// subscription writes the type that delivers. It is no instance of the generic client.TypedSubscription, and has
// only the methods that depend on the event type and Close, which makes it an io.Closer: the compiler makes each
// of them anew for each event type.
func (w *writer) subscription(e *ir.Event, event string) {
	name, base := e.SubscriptionType, w.qual(clientPath, "Subscription")
	w.doc(name + " delivers the occurrences of " + e.Schema.Name + ".")
	w.line("type ", name, " ", base)
	w.doc("Events iterates over what arrives: see [client.TypedSubscription.Events].")
	w.function("(s *"+name+") Events() "+w.qual("iter", "Seq2")+"[*"+event+", error]",
		"return "+w.qual(clientImplPath, "Events")+"[*"+event+"]((*"+base+")(s))")
	w.doc("Close ends the subscription: see [client.Subscription.Close].")
	w.function("(s *"+name+") Close() error", "return (*"+base+")(s).Close()")
	w.doc("Subscription returns what does not depend on the event type: Ack, Cursor, Mode and Status.")
	w.function("(s *"+name+") Subscription() *"+base, "return (*"+base+")(s)")
}

// untyped is the body of a function that returns what an untyped function of the runtime made as a
// pointer to a type of the event type. A call of a generic function would be shorter to read, but has the
// compiler make a copy of it for each event type.
func untyped(name, to, call string) []string {
	return []string{name + ", err := " + call, "return (*" + to + ")(" + name + "), err"}
}
