package schema

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Task is a task in the tasks section of a file. It is a background tool (MCPC-SRV-1).
type Task struct {
	File                     *File
	Node                     *source.Node
	Name, Title, Description string
	NameRange                source.Range
	Input, Update, Result    *source.Node
	// GoName is x-go-name, or empty if absent.
	GoName string
}

// A Conversation is the server's side of the conversation protocol (CONV-7).
type Conversation struct {
	File  *File
	Node  *source.Node
	Range source.Range
	// OnUserMessage and OnAssistantResponse report which messages the server receives.
	OnUserMessage, OnAssistantResponse bool
	// Context is the schema of the structured context, including memories. It is nil if the author does not describe
	// any members.
	Context *source.Node
}

// reservedTools lists the names of tools that the protocols define.
var reservedTools = []string{wire.MCPCCheck, wire.MCPCCheckHidden, wire.MCPCInit, wire.MCPEToolSubscribe, wire.MCPEToolUnsubscribe,
	wire.MCPEToolList, wire.MCPEToolPause, wire.MCPEToolResume, wire.MCPEToolUpdate, wire.WaitTool}

// reservedArguments lists the arguments that MCPC clients add to a call.
var reservedArguments = []string{wire.MCPCParams, wire.MCPCMetadata}

func (l *loader) readTask(f *File, n *source.Node) {
	o := l.Object(n, "the task", []string{"name", "description", "inputSchema", "updateSchema", "resultSchema"}, []string{"title", "x-go-name"})
	if o == nil {
		return
	}
	t := &Task{File: f, Node: n, NameRange: n.Range}
	f.Tasks = append(f.Tasks, t)
	if name, at := o.Text("name"); at != nil {
		t.Name, t.NameRange = name, at.Range
		l.checkTaskName(t)
	}
	if text, at := o.Text("description"); at != nil {
		if t.Description = text; text == "" {
			l.Report(source.New("MCPE123", at.Range, "description is empty"))
		}
	}
	t.Title, _ = o.Text("title")
	if name, at := o.Text("x-go-name"); at != nil && l.checkGoName(at) {
		t.GoName = name
	}
	for _, part := range []struct {
		key  string
		into **source.Node
	}{{"inputSchema", &t.Input}, {"updateSchema", &t.Update}, {"resultSchema", &t.Result}} {
		if *part.into = n.Get(part.key); *part.into != nil {
			l.roots = append(l.roots, &root{file: f, node: *part.into, task: t, name: t.Name + "." + part.key})
		}
	}
}

// checkToolName reports whether a tool can have the name. If it cannot, checkToolName adds a diagnostic.
func (l *loader) checkToolName(name string, at source.Range, remedy string) bool {
	switch {
	case !toolForm.MatchString(name):
		l.Report(source.New("MCPE124", at, "%q cannot name a tool", name).WithHint("use 1 to 64 ASCII letters and digits, '_' and '-'"))
	case slices.Contains(reservedTools, name):
		l.Report(source.New("MCPE155", at, "the tool %s belongs to a protocol", name).WithHint("%s", remedy))
	default:
		return true
	}
	return false
}

func (l *loader) checkTaskName(t *Task) {
	switch first := l.tasks[t.Name]; {
	case !l.checkToolName(t.Name, t.NameRange, "give the task another name"):
	case first != nil:
		l.Report(source.New("MCPE154", t.NameRange, "task %q is described twice", t.Name).WithRelated(first.NameRange, "first described here"))
	default:
		if l.tasks == nil {
			l.tasks = make(map[string]*Task)
		}
		l.tasks[t.Name] = t
	}
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
		properties := n.Get("properties")
		if properties == nil {
			continue
		}
		for _, m := range properties.Members {
			if slices.Contains(reservedArguments, m.Key) {
				l.Report(source.New("MCPE155", m.KeyRange, "the argument %s belongs to MCPC: the tool would never see it", m.Key).
					WithHint("rename the argument"))
			}
		}
	}
}

func (l *loader) readConversation(f *File, m *source.Member) {
	o := l.Object(m.Value, "conversation", nil, []string{"onUserMessage", "onAssistantResponse", "structuredContext"})
	if o == nil {
		return
	}
	c := &Conversation{File: f, Node: m.Value, Range: m.KeyRange, OnUserMessage: o.Flag("onUserMessage", true), OnAssistantResponse: o.Flag("onAssistantResponse", false)}
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
	if s == nil || !l.Is(s.Value, source.Object, "structuredContext") {
		return
	}
	c.Context = s.Value
	if l.addMemories(s) {
		l.roots = append(l.roots, &root{file: f, node: c.Context, conversation: c, name: "conversation.structuredContext"})
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
