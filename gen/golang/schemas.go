package golang

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/dave/jennifer/jen"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// Names of what the package file declares for the schemas. Import names may be any word that schemas ask
// for, but hardly these.
const (
	schemasText = "publishedSchemasText"
	schemasVar  = "publishedSchemas"
)

// A pool holds each text of a definition once, by a key that is the definition's name wherever possible.
type pool struct {
	texts map[string]string // by key
	keys  map[[2]string]string
	order []string
}

// key returns the key of a definition.
func (p *pool) key(name, text string) string {
	if k, ok := p.keys[[2]string{name, text}]; ok {
		return k
	}
	k := name
	for i := 2; ; i++ {
		if _, taken := p.texts[k]; !taken {
			break
		}
		k = name + "#" + strconv.Itoa(i)
	}
	p.keys[[2]string{name, text}], p.texts[k] = k, text
	p.order = append(p.order, k)
	return k
}

// short appends a published schema whose definitions are in the pool: at its top $defs and definitions
// become lists, which [events.Schemas] reads.
func (p *pool) short(out []byte, published json.RawMessage) ([]byte, error) {
	members, err := membersOf(published)
	if err != nil || len(published) == 0 || published[0] != '{' {
		return append(out, published...), err
	}
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, m.key...), ':')
		if m.name != "$defs" && m.name != "definitions" || m.value[0] != '{' {
			out = append(out, m.value...)
			continue
		}
		defs, err := membersOf(m.value)
		if err != nil {
			return nil, err
		}
		out = append(out, '[')
		for j, d := range defs {
			if j > 0 {
				out = append(out, ',')
			}
			key := p.key(d.name, string(d.value))
			if key == d.name {
				out = append(out, d.key...)
				continue
			}
			out = append(append(append(out, '['), d.key...), ',')
			out = append(source.AppendString(out, key), ']')
		}
		out = append(out, ']')
	}
	return append(out, '}'), nil
}

// A jsonMember is a member of an object: its name, and key and value as they are written.
type jsonMember struct {
	name       string
	key, value jsontext.Value
}

// membersOf returns the members of a compact object, whose text they share; none of what is no object.
func membersOf(raw []byte) ([]jsonMember, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw)) // which it reads in place
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var members []jsonMember
	for dec.PeekKind() == '"' {
		key, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		end := dec.InputOffset()
		m := jsonMember{key: raw[end-int64(len(key)) : end : end]}
		name, err := jsontext.AppendUnquote(nil, key)
		if err != nil {
			return nil, err
		}
		m.name = string(name)
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		end = dec.InputOffset()
		m.value = raw[end-int64(len(value)) : end : end]
		members = append(members, m)
	}
	return members, nil
}

// A publishedSchema is a schema and the name of its member, by which [events.Schemas] finds it.
type publishedSchema struct {
	member string
	text   json.RawMessage
}

// A publishedSection is what the file holds of one event type or task. Its kind is "events" or "tasks".
type publishedSection struct {
	kind, name string
	event      *ir.Event // nil for a task
	schemas    []publishedSchema
}

// published are the event types and tasks that the package's code asks for: clients publish none.
func published(p *ir.Package, o Options) []publishedSection {
	var all []publishedSection
	if !o.published() {
		return nil
	}
	for _, f := range p.Files {
		for _, e := range f.Events {
			all = append(all, publishedSection{"events", e.Schema.Name, e, []publishedSchema{
				{"inputSchema", e.InputSchema}, {"payloadSchema", e.PayloadSchema}}})
		}
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

// description is what [events.Schemas] and readtool.All read of an event type beside its schemas: members of an
// object, a comma after each. What is the default is left out.
func description(e *ir.Event, o Options) []byte {
	s := e.Schema
	var out []byte
	text := func(key, value string) { out = append(source.AppendString(append(out, `"`+key+`":`...), value), ',') }
	value := func(key string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // strings and booleans alone
		}
		out = append(append(append(out, `"`+key+`":`...), b...), ',')
	}
	text("description", s.Description)
	if len(s.Delivery) > 0 {
		value("delivery", s.Delivery)
	}
	text("fingerprint", e.Fingerprint)
	if s.Meta != nil && len(s.Meta.Members) > 0 {
		out = append(append(append(out, `"meta":`...), s.Meta.JSON()...), ',')
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
	if m := s.MCPE; m != nil {
		priority := m.Priority
		if priority == "normal" {
			priority = ""
		}
		value("mcpe", events.MCPE{Disabled: !m.Enabled, Priority: priority, Tags: m.Tags})
	}
	if o.Tools && e.Tool != nil && e.Tool.Custom {
		value("tool", toolNames(e))
	}
	return out
}

// toolNames are those of the read tool that are not the default.
func toolNames(e *ir.Event) readtool.Names {
	other := func(name, usual string) string {
		if name == usual {
			return ""
		}
		return name
	}
	return readtool.Names{Name: other(e.Tool.Tool.Name, readtool.Name(e.Schema.Name)), ArgumentNames: readtool.ArgumentNames{
		Cursor: other(e.Tool.Cursor, readtool.CursorArgument), MaxEvents: other(e.Tool.MaxEvents, readtool.MaxEventsArgument),
		Wait: other(e.Tool.Wait, readtool.WaitArgument)}}
}

func matchRules(rules []schema.MatchRule) []events.MatchRule {
	list := make([]events.MatchRule, len(rules))
	for i, r := range rules {
		list[i] = events.MatchRule{Argument: r.Argument, Path: r.Path, Op: events.MatchOp(r.Op)}
		if list[i].Op == events.MatchEqual {
			list[i].Op = ""
		}
	}
	return list
}

// schemasJSON is the file of all that is published, nil when there is nothing. It is read back, so that what
// a server publishes is what was modelled, byte for byte.
func schemasJSON(p *ir.Package, o Options) ([]byte, error) {
	all := published(p, o)
	if len(all) == 0 {
		return nil, nil
	}
	shared := &pool{texts: map[string]string{}, keys: map[[2]string]string{}}
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
		body = append(source.AppendString(body, s.name), ":{"...)
		if s.event != nil {
			body = append(body, description(s.event, o)...)
		}
		for i, schema := range s.schemas {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(body, `"`+schema.member+`":`...)
			var err error
			if body, err = shared.short(body, schema.text); err != nil {
				return nil, fmt.Errorf("write %s: the %s of %s: %w", SchemasFile, schema.member, s.name, err)
			}
		}
		body = append(body, '}')
	}
	out := []byte(`{"$defs":{`)
	for i, k := range shared.order {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(source.AppendString(out, k), ':'), shared.texts[k]...)
	}
	out = append(append(append(out, '}'), body...), "}}"...)
	content := indented(out)
	read := events.NewSchemas(string(content))
	for _, section := range all {
		get := read.Event
		if section.kind == "tasks" {
			get = read.Task
		}
		if section.event != nil {
			if i := read.Describe(section.name); i.Err() != nil {
				return nil, fmt.Errorf("write %s: %w", SchemasFile, i.Err())
			}
		}
		for _, s := range section.schemas {
			if !bytes.Equal(get(section.name, s.member), s.text) {
				return nil, fmt.Errorf("write %s: the %s of %s is not what it was when it is read back", SchemasFile, s.member, section.name)
			}
		}
	}
	return content, nil
}

// embedded writes the variables that hold the schemas.
func (w *writer) embedded() {
	w.file.Anon("embed")
	w.add(jen.Comment("//go:embed "+SchemasFile), jen.Var().Id(schemasText).String())
	w.add(comment(schemasVar+" are read when the first event type or task is used."),
		jen.Var().Id(schemasVar).Op("=").Qual(eventsPath, "NewSchemas").Call(jen.Id(schemasText)))
}

// schemaOf is the call that returns a published schema of a task.
func schemaOf(t *ir.Task, member string) *jen.Statement {
	return jen.Id(schemasVar).Dot("Task").Call(text(t.Schema.Name), text(member))
}
