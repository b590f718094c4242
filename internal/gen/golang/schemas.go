package golang

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

// Names of the schema variables in the package file. They are unlikely to collide with the names of imported packages.
const (
	schemasText = "publishedSchemasText"
	schemasVar  = "publishedSchemas"
)

// A pool assigns a unique key to each definition. The key is the definition's name, followed by a number if the name is
// taken.
type pool struct {
	keys  map[*published.Schema]string
	taken map[string]bool
	order []*published.Schema
}

// newPool returns an empty pool. It takes the empty name, so that every key has a number or a name.
func newPool() *pool {
	return &pool{keys: map[*published.Schema]string{}, taken: map[string]bool{"": true}}
}

// add adds all definitions that a schema refers to, directly or indirectly.
func (p *pool) add(s *published.Schema) {
	for _, d := range s.Definitions() {
		if p.keys[d] != "" {
			continue
		}
		p.keys[d] = source.UniqueName(d.Name, "#", p.taken)
		p.order = append(p.order, d)
	}
}

// appendSchema appends a schema in the format of [eventsimpl.Schemas], which replaces definitions with a list of their
// keys.
func (p *pool) appendSchema(out []byte, s *published.Schema) []byte {
	if len(s.Refs) == 0 {
		return append(out, s.Short()...)
	}
	own := bytes.LastIndexByte(s.Head, '{') // of an empty $defs
	if s.Head[len(s.Head)-1] != '{' {
		own = p.definitionsStart(s)
	}
	out = append(append(out, s.Head[:own]...), '[')
	if object := s.Head[own:]; len(object) > 1 {
		out = append(append(out, object...), "},"...)
	}
	out = p.appendKeys(out, s.Refs)
	return append(append(out, ']'), s.Tail[1:]...)
}

// definitionsStart returns the offset in s.Head at which the definitions object starts.
func (p *pool) definitionsStart(s *published.Schema) int {
	for _, m := range schematree.ParseMembers(s.Short()) {
		if m.Start < len(s.Head) && m.Start+len(m.Value) > len(s.Head) {
			return m.Start
		}
	}
	return bytes.LastIndexByte(s.Head, '{') // reading it back reports the error
}

// appendKeys appends the keys of definitions. If a definition's name differs from its key, it also appends the name.
func (p *pool) appendKeys(out []byte, refs []*published.Schema) []byte {
	for i, d := range refs {
		if i > 0 {
			out = append(out, ',')
		}
		if k := p.keys[d]; k != d.Name {
			out = append(schematree.AppendString(append(out, '['), d.Name), ',')
			out = append(schematree.AppendString(out, k), ']')
			continue
		}
		out = schematree.AppendString(out, d.Name)
	}
	return out
}

// appendDefinitions appends the members $defs and refs of the schemas file.
func (p *pool) appendDefinitions(out []byte) []byte {
	out = append(out, `"$defs":{`...)
	for i, d := range p.order {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(schematree.AppendString(out, p.keys[d]), ':'), d.Head...)
	}
	out = append(out, '}')
	first := true
	for _, d := range p.order {
		if len(d.Refs) == 0 {
			continue
		}
		if out = append(out, ','); first {
			out, first = append(out, `"refs":{`...), false
		}
		out = append(schematree.AppendString(out, p.keys[d]), ":["...)
		out = append(p.appendKeys(out, d.Refs), ']')
	}
	if !first {
		out = append(out, '}')
	}
	return out
}

// A publishedSchema is a schema and the name of its member in [eventsimpl.Schemas].
type publishedSchema struct {
	member string
	schema *published.Schema
}

// A publishedSection is the part of the schemas file for one event type or task. kind is "events" or "tasks".
type publishedSection struct {
	kind, name string
	event      *ir.Event // nil for a task
	schemas    []publishedSchema
}

// publishedSections returns the event types and tasks whose schemas the generated code requires. Client code does not
// require schemas.
func publishedSections(p *ir.Package, o Options) []publishedSection {
	var all []publishedSection
	if !o.published() {
		return nil
	}
	for _, e := range p.Events() {
		all = append(all, publishedSection{"events", e.Schema.Name, e, []publishedSchema{
			{"inputSchema", e.InputSchema}, {"payloadSchema", e.PayloadSchema}}})
	}
	if !o.Server {
		return all
	}
	for _, f := range p.Files {
		for _, t := range f.Tasks {
			all = append(all, publishedSection{"tasks", t.Schema.Name, nil, []publishedSchema{
				{"inputSchema", t.InputSchema}, {"updateSchema", t.UpdateSchema}, {"resultSchema", t.ResultSchema}}})
		}
	}
	return all
}

// eventDescription returns the members that describe an event type in [eventsimpl.Schemas], except its schemas. It
// omits default values and adds a comma after each member.
func eventDescription(e *ir.Event, o Options) []byte {
	s := e.Schema
	var out []byte
	text := func(key, value string) {
		out = append(schematree.AppendString(append(out, `"`+key+`":`...), value), ',')
	}
	value := func(key string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // strings and booleans always encode
		}
		out = append(append(append(out, `"`+key+`":`...), b...), ',')
	}
	text("description", s.Description)
	if len(s.Delivery) > 0 {
		value("delivery", s.Delivery)
	}
	text("fingerprint", e.Fingerprint)
	if meta := s.PublishedMeta(); meta != nil {
		out = append(append(append(out, `"meta":`...), meta...), ',')
	}
	if s.Source == string(events.SourceCheck) || s.Source == string(events.SourceBoth) {
		text("source", s.Source)
	}
	if !s.Replay {
		value("noReplay", true)
	}
	if len(s.Match) > 0 {
		value("match", matchRules(s.Match))
	}
	if s.Private != nil {
		value("private", s.Private)
	}
	if m := s.MCPE; m != nil {
		priority := m.Priority
		if priority == "normal" {
			priority = ""
		}
		value("mcpe", events.MCPE{Disabled: !m.Enabled, Priority: priority, Tags: m.Tags})
	}
	if o.Tools && e.Tool != nil && s.Tool != (toolschema.Names{}) {
		value("tool", toolNames(e))
	}
	return out
}

// toolNames returns the tool and argument names of a read tool that differ from the defaults.
func toolNames(e *ir.Event) toolschema.Names {
	other := func(name, usual string) string {
		if name == usual {
			return ""
		}
		return name
	}
	return toolschema.Names{Name: other(e.Tool.Name, toolschema.Name(e.Schema.Name)), ArgumentNames: toolschema.ArgumentNames{
		Cursor: other(e.Tool.Cursor, toolschema.CursorArgument), MaxEvents: other(e.Tool.MaxEvents, toolschema.MaxEventsArgument),
		Wait: other(e.Tool.Wait, toolschema.WaitArgument), Quiet: other(e.Tool.Quiet, toolschema.QuietArgument),
		Since: other(e.Tool.Since, toolschema.SinceArgument)}}
}

func matchRules(rules []schema.MatchRule) []events.MatchRule {
	list := make([]events.MatchRule, len(rules))
	for i, r := range rules {
		list[i] = events.MatchRule{Argument: r.Argument, Path: r.Path, Op: events.MatchOp(r.Op), Not: r.Not}
		if list[i].Op == events.MatchEqual {
			list[i].Op = ""
		}
	}
	return list
}

// schemasJSON returns the file with all published schemas, or nil if the package publishes none. It reads the file back
// to verify that a server would publish the schemas of the model byte for byte.
func schemasJSON(p *ir.Package, o Options) ([]byte, error) {
	all := publishedSections(p, o)
	if len(all) == 0 {
		return nil, nil
	}
	shared := newPool()
	var body []byte
	kind := ""
	for _, s := range all {
		switch {
		case s.kind == kind:
			body = append(body, ',')
		case kind != "":
			body = append(body, '}')
			fallthrough
		default:
			body = append(body, `,"`+s.kind+`":{`...)
		}
		kind = s.kind
		body = append(schematree.AppendString(body, s.name), ":{"...)
		if s.event != nil {
			body = append(body, eventDescription(s.event, o)...)
		}
		for i, part := range s.schemas {
			if i > 0 {
				body = append(body, ',')
			}
			shared.add(part.schema)
			body = shared.appendSchema(append(body, `"`+part.member+`":`...), part.schema)
		}
		body = append(body, '}')
	}
	out := append(append(shared.appendDefinitions([]byte{'{'}), body...), "}}"...)
	content := indentJSON(out)
	read := eventsimpl.NewSchemas(string(content))
	for _, section := range all {
		get := func(member string) json.RawMessage { return read.Task(section.name, member) }
		if section.event != nil {
			i := read.Describe(section.name)
			if err := published.Of(&i).Err; err != nil {
				return nil, fmt.Errorf("write %s: %w", SchemasFile, err)
			}
			described := map[string]json.RawMessage{"inputSchema": i.InputSchema, "payloadSchema": i.PayloadSchema}
			get = func(member string) json.RawMessage { return described[member] }
		}
		for _, s := range section.schemas {
			if !bytes.Equal(get(s.member), s.schema.JSON()) {
				return nil, fmt.Errorf("write %s: the %s of %s is not what it was when it is read back", SchemasFile, s.member, section.name)
			}
		}
	}
	return content, nil
}

// declareSchemas declares the variables that embed the schemas.
func (f *file) declareSchemas() {
	f.Anon("embed")
	f.Line()
	f.Comment("//go:embed " + SchemasFile)
	f.Var().Id(schemasText).String()
	f.addDoc(schemasVar + " are read when the first event type or task is used.")
	f.Var().Id(schemasVar).Op("=").Qual(eventsImplPath, "NewSchemas").Call(jen.Id(schemasText))
}

// schemaOf returns a call that loads a published schema of a task.
func schemaOf(t *ir.Task, member string) *jen.Statement {
	return jen.Id(schemasVar).Dot("Task").Call(stringLiteral(t.Schema.Name), stringLiteral(member))
}
