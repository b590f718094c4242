package golang

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// conversation writes the server's typed part in the conversation and the client's decoding (CONV-7).
func (w *writer) conversation(c *ir.Conversation) {
	for _, d := range c.Decls {
		w.decl(d)
	}
	structured := ""
	if c.Context == nil {
		structured = w.qual(conversationPath, "Memories")
	} else {
		structured = c.Context.Name
	}
	if w.options.Server {
		w.doc(ir.ConversationAnswer + " is what the server adds to a prompt; the zero value adds nothing.")
		w.line("type ", ir.ConversationAnswer, " = ", w.qual(conversationPath, "Answer"), "[", structured, "]")
		w.conversationHandler(c, structured)
	}
	if w.options.Client {
		w.doc(ir.DecodeConversation + " returns the structured context that a server of this package answered with; nil for none.")
		w.function(ir.DecodeConversation+"(c "+w.qual(conversationPath, "Contribution")+") (*"+structured+", error)",
			"return "+w.qual(conversationPath, "Decode")+"["+structured+"](c)")
	}
}

// conversationHandler writes the interface of what the author implements, and its registration.
func (w *writer) conversationHandler(c *ir.Conversation, structured string) {
	var handler []string
	w.doc(ir.ConversationHandler + " answers the messages of a conversation.")
	w.line("type ", ir.ConversationHandler, " interface {")
	method := func(name, what string) {
		w.comment(name + " " + what)
		w.line(name, "(ctx ", w.qual("context", "Context"), ", m ", w.qual(conversationPath, "Message"), ") (", ir.ConversationAnswer, ", error)")
		handler = append(handler, name+": h."+name)
	}
	if c.Schema.OnUserMessage {
		method("OnUserMessage", "is shown each message of the user.")
	}
	if c.Schema.OnAssistantResponse {
		method("OnAssistantResponse", "is shown each response of the model.")
	}
	w.line("}")
	slices.Sort(handler)
	literal := "{" + strings.Join(handler, "") + "}"
	if len(handler) > 1 {
		literal = lines(handler)
	}
	w.doc(ir.RegisterConversation + " lets h take part in the conversations of s's clients.")
	w.function(ir.RegisterConversation+"(s *"+w.qual(serverPath, "Server")+", h "+ir.ConversationHandler+", o "+w.qual(conversationPath, "Options")+") error",
		"return "+w.qual(conversationPath, "Register")+"(s, "+w.qual(conversationPath, "Handler")+"["+structured+"]"+literal+", o)")
}
