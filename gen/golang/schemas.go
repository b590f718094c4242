package golang

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/dave/jennifer/jen"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
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

// A published schema and where [events.Schemas] finds it.
type publishedSchema struct {
	kind, name, member string
	text               json.RawMessage
}

// publishedSchemas are those that the package's code asks for: clients publish none.
func publishedSchemas(p *ir.Package, o Options) []publishedSchema {
	var all []publishedSchema
	if !o.published() {
		return nil
	}
	for _, f := range p.Files {
		for _, e := range f.Events {
			all = append(all, publishedSchema{"events", e.Schema.Name, "inputSchema", e.InputSchema},
				publishedSchema{"events", e.Schema.Name, "payloadSchema", e.PayloadSchema})
		}
	}
	if !o.Server {
		return all
	}
	for _, f := range p.Files {
		for _, t := range f.Tasks {
			all = append(all, publishedSchema{"tasks", t.Schema.Name, "inputSchema", t.InputSchema},
				publishedSchema{"tasks", t.Schema.Name, "updateSchema", t.UpdateSchema},
				publishedSchema{"tasks", t.Schema.Name, "resultSchema", t.ResultSchema})
		}
	}
	return all
}

// schemasJSON is the file of all published schemas, nil when there are none. It is read back, so that what
// a server publishes is what was modelled, byte for byte.
func schemasJSON(p *ir.Package, o Options) ([]byte, error) {
	all := publishedSchemas(p, o)
	if len(all) == 0 {
		return nil, nil
	}
	shared := &pool{texts: map[string]string{}, keys: map[[2]string]string{}}
	var body []byte
	var prev publishedSchema
	for _, s := range all {
		switch {
		case s.kind != prev.kind:
			if prev.kind != "" {
				body = append(body, "}}"...)
			}
			body = append(body, `,"`+s.kind+`":{`...)
			body = append(source.AppendString(body, s.name), ":{"...)
		case s.name != prev.name:
			body = append(source.AppendString(append(body, "},"...), s.name), ":{"...)
		default:
			body = append(body, ',')
		}
		body = append(body, `"`+s.member+`":`...)
		var err error
		if body, err = shared.short(body, s.text); err != nil {
			return nil, fmt.Errorf("write %s: the %s of %s: %w", SchemasFile, s.member, s.name, err)
		}
		prev = s
	}
	out := []byte(`{"$defs":{`)
	for i, k := range shared.order {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(source.AppendString(out, k), ':'), shared.texts[k]...)
	}
	out = append(append(append(out, '}'), body...), "}}}"...)
	content := indented(out)
	read := events.NewSchemas(string(content))
	for _, s := range all {
		get := read.Event
		if s.kind == "tasks" {
			get = read.Task
		}
		if !bytes.Equal(get(s.name, s.member), s.text) {
			return nil, fmt.Errorf("write %s: the %s of %s is not what it was when it is read back", SchemasFile, s.member, s.name)
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
