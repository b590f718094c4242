package golang

import (
	"fmt"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// guardDoc is the comment above a declaration that does not compile if the runtime is too old.
var guardDoc = []string{
	"If this does not compile, the generated code is newer than its runtime: upgrade the module",
	"github.com/mcpe-gen/mcpe-gen in go.mod, or generate again with the version of mcpe-gen that it names.",
}

// maxNamed is the maximum number of event types that the package comment lists.
const maxNamed = 8

// verb returns what the package of a part does with event types and tasks.
func (o Options) verb(part Part) string {
	switch {
	case part == Client:
		return "lets a client use"
	case part == Types:
		return "holds the types of"
	case !o.Server:
		return "lets a server offer the read tools of"
	}
	return "lets a server offer"
}

// packageDoc returns the package comment of a part. It describes the contents, the event files and the entry points of
// the package.
func packageDoc(part Part, p *ir.Package, o Options, sources []string) []string {
	events := p.Events()
	var tasks []*ir.Task
	conversation := false
	for _, f := range p.Files {
		tasks = append(tasks, f.Tasks...)
		conversation = conversation || f.Conversation != nil
	}
	var holds []string
	if len(events) > 0 {
		holds = append(holds, count(len(events), "event type"))
	}
	if len(tasks) > 0 {
		holds = append(holds, count(len(tasks), "task"))
	}
	if conversation {
		holds = append(holds, "the server's part in the conversation")
	}
	if len(holds) == 0 {
		holds = append(holds, "the shared types")
	}
	verb := o.verb(part)
	if part == Types && !isUsed(p) {
		verb = "holds"
	}
	doc := []string{"Package " + o.Places[part].Name + " " + verb + " " + and(holds) + " of " + and(sources) + "."}
	if len(events) > 0 {
		doc = paragraph(doc, eventNames(events)...)
	}
	var entry []string
	switch part {
	case Types:
		entry = otherParts(p, o)
	case Server:
		entry = serverEntryPoints(events, tasks, conversation, p.Ingress, o)
	case Client:
		entry = clientEntryPoints(events, tasks)
	}
	if len(entry) > 0 {
		doc = paragraph(doc, entry...)
	}
	return doc
}

// otherParts returns comment lines about the packages of the other parts.
func otherParts(p *ir.Package, o Options) []string {
	var lines []string
	for _, part := range Parts[1:] {
		if o.Has(part, p) {
			lines = append(lines, "Package "+o.Places[part].Name+" "+o.verb(part)+" them.")
		}
	}
	return lines
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func and(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:len(items)-1], ", ") + " and " + items[len(items)-1]
}

// eventNames returns comment lines that list the first maxNamed event types.
func eventNames(events []*ir.Event) []string {
	lines := []string{"The event types:", ""}
	more := len(events) - maxNamed
	for _, e := range events[:min(len(events), maxNamed)] {
		lines = append(lines, "  - "+oneLine(e.Schema.Name))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("  - and %d more", more))
	}
	return lines
}

// serverEntryPoints returns comment lines about the functions that the author of a server calls first.
func serverEntryPoints(events []*ir.Event, tasks []*ir.Task, conversation bool, ingress []*ir.Ingress, o Options) []string {
	var lines []string
	if len(events) > 0 {
		if o.Server {
			lines = append(lines, "A server adds an event type with a function such as [Register"+events[0].Prefix+"].")
		}
		if o.Tools {
			lines = append(lines, "[ReadTools] are tools for clients that do not support events.")
		}
	}
	if len(ingress) > 0 && o.Ingress {
		lines = append(lines, "["+ingress[0].Name+"] makes the handler of webhooks that become events.")
	}
	if len(tasks) > 0 && o.Server {
		lines = append(lines, "A server adds a task with a function such as [Register"+tasks[0].Prefix+"Task].")
	}
	if conversation && o.Server {
		lines = append(lines, "[RegisterConversation] lets a server take part in the conversation.")
	}
	return lines
}

// clientEntryPoints returns comment lines about the functions that the author of a client calls first.
func clientEntryPoints(events []*ir.Event, tasks []*ir.Task) []string {
	var lines []string
	if len(events) > 0 {
		lines = append(lines, "A client receives an event type with a function such as [Subscribe"+events[0].Prefix+"].")
	}
	if len(tasks) > 0 {
		lines = append(lines, "A client starts a task with a function such as [Call"+tasks[0].Prefix+"Task].")
	}
	return lines
}
