package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// structuredContext returns the type of the structured context of a conversation.
func (f *file) structuredContext(c *ir.Conversation) *jen.Statement {
	if c.Context != nil {
		return f.declared(c.Context.Name)
	}
	return jen.Qual(conversationPath, "Memories")
}

// declareConversationServer declares the typed conversation API for servers (CONV-7).
func (f *file) declareConversationServer(c *ir.Conversation) {
	structured := f.structuredContext(c)
	f.addDoc(ir.ConversationAnswer + " holds the additions of the server to a prompt; the zero value adds nothing.")
	f.Type().Id(ir.ConversationAnswer).Op("=").Qual(conversationPath, "Answer").Types(structured)
	f.declareConversationHandler(c, structured)
}

// declareConversationClient declares the decoding function for clients (CONV-7).
func (f *file) declareConversationClient(c *ir.Conversation) {
	structured := f.structuredContext(c)
	f.addDoc(ir.DecodeConversation + " returns the structured context in the answer of a server, or nil.")
	f.Func().Id(ir.DecodeConversation).Params(
		jen.Id("c").Qual(conversationPath, "Contribution"),
	).Params(pointer(structured), jen.Error()).Block(
		jen.Return(jen.Qual(conversationPath, "Decode").Types(structured).Call(jen.Id("c"))),
	)
}

// A conversationMethod is a method of the conversation handler interface.
type conversationMethod struct{ name, doc string }

// conversationMethods returns the methods for the messages that the server receives.
func conversationMethods(c *ir.Conversation) []conversationMethod {
	var methods []conversationMethod
	if c.Schema.OnUserMessage {
		methods = append(methods, conversationMethod{"OnUserMessage", "receives each message of the user."})
	}
	if c.Schema.OnAssistantResponse {
		methods = append(methods, conversationMethod{"OnAssistantResponse", "receives each response of the model."})
	}
	return methods
}

// declareConversationHandler declares the handler interface, which the author of a server implements, and its
// registration function.
func (f *file) declareConversationHandler(c *ir.Conversation, structured jen.Code) {
	methods := conversationMethods(c)
	f.addDoc(ir.ConversationHandler + " answers the messages of a conversation.")
	f.Type().Id(ir.ConversationHandler).InterfaceFunc(func(g *jen.Group) {
		for _, m := range methods {
			addComment(g, m.name+" "+m.doc)
			g.Id(m.name).Params(ctxParam(), jen.Id("m").Qual(conversationPath, "Message")).Params(jen.Id(ir.ConversationAnswer), jen.Error())
		}
	})
	handler := jen.Dict{}
	for _, m := range methods {
		handler[jen.Id(m.name)] = jen.Id("h").Dot(m.name)
	}
	f.addDoc(ir.RegisterConversation + " lets h take part in the conversations of s's clients.")
	f.Func().Id(ir.RegisterConversation).Params(
		jen.Id("s").Op("*").Qual(serverPath, "Server"), jen.Id("h").Id(ir.ConversationHandler), jen.Id("o").Qual(conversationPath, "Options"),
	).Error().Block(
		jen.Return(jen.Qual(conversationPath, "Register").Call(
			jen.Id("s"), jen.Qual(conversationPath, "Handler").Types(structured).Values(handler), jen.Id("o"))),
	)
}
