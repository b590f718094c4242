package schema

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Task is a task in the tasks section of a file. It is a background tool (MCPC-SRV-1).
type Task struct {
	Node                     *source.Node
	Name, Title, Description string
	NameRange                source.Range
	Input, Update, Result    *source.Node
	// GoName is x-go-name, or empty if absent.
	GoName string
}

// A Conversation is the server's side of the conversation protocol (CONV-7).
type Conversation struct {
	Range source.Range
	// OnUserMessage and OnAssistantResponse report which messages the server receives.
	OnUserMessage, OnAssistantResponse bool
	// Context is the schema of the structured context, including memories. It is nil if the author does not describe
	// any members.
	Context *source.Node
}

// reservedArguments lists the arguments that MCPC clients add to a call.
var reservedArguments = []string{wire.MCPCParams, wire.MCPCMetadata}

func (l *loader) readTask(f *File, n *source.Node) {
	t := &Task{Node: n, Name: n.Word("name"), NameRange: n.Range, Title: n.Word("title"), Description: n.Word("description"), GoName: n.Word("x-go-name")}
	f.Tasks = append(f.Tasks, t)
	if at := n.Get("name"); at != nil {
		t.NameRange = at.Range
		l.checkTaskName(t)
	}
	for _, part := range []struct {
		key  string
		into **source.Node
	}{{"inputSchema", &t.Input}, {"updateSchema", &t.Update}, {"resultSchema", &t.Result}} {
		if *part.into = n.Get(part.key); *part.into != nil {
			l.roots = append(l.roots, &root{file: f, node: *part.into, name: t.Name + "." + part.key})
		}
	}
}

func (l *loader) checkTaskName(t *Task) {
	if first := l.tasks[t.Name]; first != nil {
		l.Report(source.New("MCPE154", t.NameRange, "task %q is described twice", t.Name).WithRelated(first.NameRange, "first described here"))
		return
	}
	if l.tasks == nil {
		l.tasks = make(map[string]*Task)
	}
	l.tasks[t.Name] = t
}

// checkTasks checks tasks after all schemas are loaded.
func (l *loader) checkTasks() {
	broken := make(map[*source.Node]bool)
	for _, r := range l.roots {
		broken[r.node] = r.isBroken
	}
	for _, f := range l.set.Files {
		for _, t := range f.Tasks {
			for _, n := range []*source.Node{t.Input, t.Result} {
				if n != nil && !broken[n] {
					l.checkObject(n)
				}
			}
			l.checkReservedArguments(t)
		}
		if c := f.Conversation; c != nil && c.Context != nil && !broken[c.Context] {
			l.checkObject(c.Context)
		}
	}
}

// checkReservedArguments reports arguments with names reserved by MCPC, which removes them before the tool runs.
func (l *loader) checkReservedArguments(t *Task) {
	for _, n := range l.set.Views(t.Input) {
		for _, m := range n.MembersAt("properties") {
			if slices.Contains(reservedArguments, m.Key) {
				l.Report(source.New("MCPE155", m.KeyRange, "the argument %s belongs to MCPC: the tool would never see it", m.Key).
					WithHint("rename the argument"))
			}
		}
	}
}

func (l *loader) readConversation(f *File, m *source.Member) {
	c := &Conversation{Range: m.KeyRange, OnUserMessage: m.Value.Flag("onUserMessage", true), OnAssistantResponse: m.Value.Flag("onAssistantResponse", false)}
	if first := l.conversation; first != nil {
		l.Report(source.New("MCPE154", m.KeyRange, "conversation is described twice").WithRelated(first.Range, "first described here").
			WithHint("a server has one part in the conversation: keep one"))
		return
	}
	l.conversation, f.Conversation = c, c
	if !c.OnUserMessage && !c.OnAssistantResponse {
		l.Report(source.New("MCPE123", m.KeyRange, "conversation handles no messages").WithHint("set onUserMessage or onAssistantResponse, or leave conversation out"))
	}
	s := m.Value.Member("structuredContext")
	if s == nil || s.Value.Kind != source.Object {
		return
	}
	c.Context = s.Value
	if l.addMemories(s) {
		l.roots = append(l.roots, &root{file: f, node: c.Context, name: "conversation.structuredContext"})
	}
}

// memories is the schema of the member memories, which every structured context can have (CONV-3).
const memories = `{"type":"array","description":"What is remembered, for the model.","items":{"type":"object",` +
	`"properties":{"content":{"type":"string","description":"The memory."},` +
	`"relevance":{"type":"number","minimum":0,"maximum":1,"description":"From 0 to 1."},` +
	`"source":{"type":"string","description":"Where it comes from."}},"required":["content","relevance"]}}`

// addMemories adds the member memories to the author's schema of the structured context. If the author already
// describes that member, it returns false.
func (l *loader) addMemories(at *source.Member) bool {
	properties := at.Value.Get("properties")
	if properties == nil {
		properties = &source.Node{Kind: source.Object, Range: at.KeyRange}
		at.Value.Add("properties", at.KeyRange, properties)
	}
	if properties.Kind != source.Object {
		return true // the metaschema reports the problem
	}
	if m := properties.Member("memories"); m != nil {
		l.Report(source.New("MCPE155", m.KeyRange, "memories belongs to the protocol").WithHint("leave it out: every structured context has it"))
		return false
	}
	made, found := source.Parse("memories", []byte(memories))
	if source.HasErrors(found) {
		panic("internal/gen/schema: " + found[0].String()) // the constant is tested
	}
	made.Move(at.KeyRange)
	properties.Add("memories", at.KeyRange, made)
	return true
}
