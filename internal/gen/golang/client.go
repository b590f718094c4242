package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// declareSubscribe declares the client API: the type of subscriptions, and the functions that subscribe.
func (f *file) declareSubscribe(e *ir.Event) {
	subscription := jen.Id(e.Prefix + "Subscription")
	f.declareSubscription(e)
	args, options := jen.Id("args").Add(f.declared(e.Arguments.Name)), jen.Id("o").Op("...").Qual(clientPath, "SubscribeOption")

	name := "Subscribe" + e.Prefix
	f.eventDoc(e.Schema, "Deprecated: ", name+" subscribes to "+e.Schema.Name+".")
	f.Func().Id(name).Params(
		ctxParam(), jen.Id("c").Op("*").Qual(clientPath, "Client"), args, options,
	).Params(pointer(subscription), jen.Error()).Block(
		untypedBody("s", subscription, jen.Qual(clientImplPath, "Subscribe").Call(
			jen.Id("ctx"), jen.Id("c"), f.eventName(e), stringLiteral(e.Fingerprint), addressOf(jen.Id("args")), jen.Id("o")))...,
	)

	name = "Handle" + e.Prefix
	f.eventDoc(e.Schema, "Deprecated: ", name+" binds f to the occurrences of "+e.Schema.Name+": see [client.Handle].")
	f.Func().Id(name).Params(
		args, jen.Id("f").Func().Params(jen.Qual("context", "Context"), pointer(f.occurrence(e))).Error(), options,
	).Qual(clientPath, "Binding").Block(
		jen.Return(jen.Qual(clientImplPath, "Handle").Call(
			f.eventName(e), stringLiteral(e.Fingerprint), addressOf(jen.Id("args")), jen.Id("f"), jen.Id("o"))),
	)
}

// declareSubscription declares the subscription type. It does not instantiate the generic client.TypedSubscription,
// because the compiler would then create all its methods for each event type. The declared type has only Close, for
// io.Closer, and the methods that depend on the event type.
func (f *file) declareSubscription(e *ir.Event) {
	name, base := e.Prefix+"Subscription", jen.Qual(clientPath, "Subscription")
	receiver, event := pointer(jen.Id(name)), f.occurrence(e)
	f.addDoc(name + " delivers the occurrences of " + e.Schema.Name + ".")
	f.Type().Id(name).Add(base)
	f.addDoc("Events iterates over what arrives: see [client.TypedSubscription.Events].")
	f.startMethod("s", receiver, "Events").Params().Qual("iter", "Seq2").Types(pointer(event), jen.Error()).Block(
		jen.Return(jen.Qual(clientImplPath, "Events").Types(pointer(event)).Call(convertPointer(base, "s"))),
	)
	f.addDoc("Close ends the subscription: see [client.Subscription.Close].")
	f.startMethod("s", receiver, "Close").Params().Error().Block(jen.Return(convertPointer(base, "s").Dot("Close").Call()))
	f.addDoc("Subscription returns what does not depend on the event type: Ack, Cursor, Mode and Status.")
	f.startMethod("s", receiver, "Subscription").Params().Add(pointer(base)).Block(jen.Return(convertPointer(base, "s")))
}
