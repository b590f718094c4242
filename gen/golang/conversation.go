package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// conversation writes the server's typed part in the conversation and the client's decoding (CONV-7).
func (w *writer) conversation(c *ir.Conversation) {
	for _, d := range c.Decls {
		w.decl(d)
	}
	structured := func() jen.Code {
		if c.Context == nil {
			return jen.Qual(conversationPath, "Memories")
		}
		return jen.Id(c.Context.Name)
	}
	if w.options.Server {
		w.add(comment(ir.ConversationAnswer+" is what the server adds to a prompt; the zero value adds nothing."),
			jen.Type().Id(ir.ConversationAnswer).Op("=").Qual(conversationPath, "Answer").Types(structured()))
		w.conversationHandler(c, structured)
	}
	if w.options.Client {
		w.add(comment(ir.DecodeConversation+" returns the structured context that a server of this package answered with; nil for none."),
			jen.Func().Id(ir.DecodeConversation).Params(jen.Id("c").Qual(conversationPath, "Contribution")).
				Params(jen.Op("*").Add(structured()), jen.Error()).Block(
				jen.Return(jen.Qual(conversationPath, "Decode").Types(structured()).Call(jen.Id("c")))))
	}
}

// conversationHandler writes the interface of what the author implements, and its registration.
func (w *writer) conversationHandler(c *ir.Conversation, structured func() jen.Code) {
	var methods []jen.Code
	handler := jen.Dict{}
	method := func(name, what string) {
		methods = append(methods, comment(name+" "+what), jen.Id(name).Params(
			jen.Id("ctx").Qual("context", "Context"), jen.Id("m").Qual(conversationPath, "Message"),
		).Params(jen.Id(ir.ConversationAnswer), jen.Error()))
		handler[jen.Id(name)] = jen.Id("h").Dot(name)
	}
	if c.Schema.OnUserMessage {
		method("OnUserMessage", "is shown each message of the user.")
	}
	if c.Schema.OnAssistantResponse {
		method("OnAssistantResponse", "is shown each response of the model.")
	}
	w.add(comment(ir.ConversationHandler+" answers the messages of a conversation."),
		jen.Type().Id(ir.ConversationHandler).Interface(methods...))
	w.add(comment(ir.RegisterConversation+" lets h take part in the conversations of s's clients."),
		jen.Func().Id(ir.RegisterConversation).Params(
			jen.Id("s").Op("*").Qual(serverPath, "Server"), jen.Id("h").Id(ir.ConversationHandler), jen.Id("o").Qual(conversationPath, "Options"),
		).Error().Block(
			jen.Return(jen.Qual(conversationPath, "Register").Call(jen.Id("s"),
				jen.Qual(conversationPath, "Handler").Types(structured()).Values(handler), jen.Id("o")))))
}
