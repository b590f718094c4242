package ir

import (
	"bytes"
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
)

func (b *builder) declareTask(t *schema.Task) *Task {
	prefix := GoName(t.Name)
	if t.GoName != "" {
		prefix = t.GoName
	}
	out := &Task{Schema: t, Prefix: prefix}
	arguments, update, result := nameSegment(t.Input, prefix+"TaskArguments"), nameSegment(t.Update, prefix+"TaskUpdate"), nameSegment(t.Result, prefix+"TaskResult")
	b.declareNames(declared{"task " + t.Name, t.NameRange}, []string{arguments, update, result, prefix + "TaskInfo"},
		[]string{prefix + "Task", "Register" + prefix + "Task"}, []string{"Call" + prefix + "Task", "Listen" + prefix + "Task"})
	out.Arguments = b.partRoot(&out.Decls, t.Input, arguments, "the arguments of "+t.Name, true)
	out.Update = b.partRoot(&out.Decls, t.Update, update, "an update of "+t.Name, false)
	out.Result = b.partRoot(&out.Decls, t.Result, result, "the result of "+t.Name, false)
	return out
}

// Names of the declarations for a conversation.
const (
	ConversationContext  = "ConversationContext"
	ConversationAnswer   = "ConversationAnswer"
	ConversationHandler  = "ConversationHandler"
	RegisterConversation = "RegisterConversation"
	DecodeConversation   = "DecodeConversation"
)

func (b *builder) declareConversation(c *schema.Conversation) *Conversation {
	out := &Conversation{Schema: c}
	context := ConversationContext
	if c.Context != nil {
		context = nameSegment(c.Context, context)
	}
	b.declareNames(declared{"the conversation", c.Range}, []string{context},
		[]string{ConversationAnswer, ConversationHandler, RegisterConversation}, []string{DecodeConversation})
	if c.Context != nil {
		out.Context = b.partRoot(&out.Decls, c.Context, context, "the structured context of the conversation", false)
	}
	return out
}

// publishTasks adds the schemas of the tasks. It also checks that the names of tasks and read tools are distinct.
func (b *builder) publishTasks(p *Package, tools scope) {
	for _, f := range p.Files {
		for _, t := range f.Tasks {
			if prev, taken := tools[t.Schema.Name]; taken {
				b.report(source.New("MCPE221", t.Schema.NameRange, "the task %s has the name of the read tool of %s", t.Schema.Name, prev.what).
					WithRelated(prev.at, "%s is here", prev.what).WithHint("set x-tool-name on the event, or rename the task"))
			}
			t.InputSchema = asObject(b.set.Shared(t.Schema.Input))
			t.UpdateSchema = b.set.Shared(t.Schema.Update)
			t.ResultSchema = asObject(b.set.Shared(t.Schema.Result))
		}
	}
}

// asObject adds type: object at the root of a tool's schema. MCP requires it even if a $ref already implies it.
func asObject(s *published.Schema) *published.Schema {
	var head struct {
		Type any `json:"type"`
	}
	short := s.Short()
	if json.Unmarshal(short, &head) != nil || head.Type == "object" || !bytes.HasPrefix(short, []byte("{")) {
		return s
	}
	var members map[string]json.RawMessage
	if head.Type != nil && json.Unmarshal(s.JSON(), &members) == nil { // ["object"]
		members["type"] = json.RawMessage(`"object"`)
		if b, err := json.Marshal(members); err == nil {
			return &published.Schema{Head: b}
		}
	}
	first := `{"type":"object"`
	if string(short) != "{}" {
		first += ","
	}
	out := *s
	out.Head = append([]byte(first), s.Head[1:]...)
	return &out
}
