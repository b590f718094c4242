package asyncapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/gen/yaml"
)

// Read returns the event types of an AsyncAPI document of version 2 or 3: one for each message that the
// application sends, or, where no operation tells, for each message of a channel. A document that is none
// gives an error diagnostic (MCPE510, or one of its text); messages that cannot be event types are left
// out with a warning (MCPE511).
func Read(path string, data []byte) (importer.Document, []source.Diagnostic) {
	doc, found := source.Parse(path, data)
	if source.HasErrors(found) {
		return importer.Document{}, found
	}
	out, more := ReadDocument(doc)
	return out, append(found, more...)
}

// ReadDocument is [Read] of a document that was parsed.
func ReadDocument(doc *source.Node) (importer.Document, []source.Diagnostic) {
	r := &reader{doc: doc, names: map[string]bool{}}
	version, channels := doc.Get("asyncapi"), doc.Get("channels")
	switch {
	case version == nil || !strings.HasPrefix(version.Text, "3.") && !strings.HasPrefix(version.Text, "2."):
		at := doc.Range
		if version != nil {
			at = version.Range
		}
		return importer.Document{}, []source.Diagnostic{source.New("MCPE510", at, "this is no AsyncAPI document of version 2 or 3").
			WithHint("its first line would be asyncapi: %s; convert an older one first", Version)}
	case channels == nil || channels.Kind != source.Object:
		return importer.Document{}, []source.Diagnostic{source.New("MCPE510", doc.Range, "the document has no channels").
			WithHint("an AsyncAPI document lists its channels under channels:")}
	}
	var out importer.Document
	if t := doc.Get("info").Get("title"); t != nil {
		out.Title = t.Text
	}
	if strings.HasPrefix(version.Text, "2.") {
		r.second(channels)
	} else {
		r.third(channels)
	}
	out.Events = r.events
	r.whole(&out)
	return out, source.Sort(r.found)
}

// whole reads what Export kept of the event files.
func (r *reader) whole(out *importer.Document) {
	x := r.doc.Get(rootExtension)
	if x == nil {
		return
	}
	out.Package = textOf(x.Get("name"))
	lines := func(of string) (list []string) {
		for _, n := range items(x.Get("comments").Get(of)) {
			list = append(list, n.Text)
		}
		return list
	}
	out.Comments = lines("")
	for i := range out.Events {
		out.Events[i].Comments = lines("/events/" + out.Events[i].Name)
	}
	for _, m := range members(x.Get("schemas")) {
		if n := r.kept(m.Value); n != nil {
			out.Schemas = append(out.Schemas, importer.Schema{Name: m.Key, Node: n, Own: true, At: m.KeyRange, Comments: lines("/schemas/" + m.Key)})
		}
	}
	out.Tasks, out.Conversation = r.kept(x.Get("tasks")), r.kept(x.Get("conversation"))
}

// kept is a part of an event file that is kept as a text; nil where there is none.
func (r *reader) kept(n *source.Node) *source.Node {
	if n == nil || n.Kind != source.String {
		return nil
	}
	out, found := source.Parse("kept", []byte(n.Text))
	if source.HasErrors(found) {
		r.found = append(r.found, source.New("MCPE511", n.Range, "what %s kept here cannot be read: %s", rootExtension, found[0].Message))
		return nil
	}
	return out
}

// third reads the channels of version 3.
func (r *reader) third(channels *source.Node) {
	r.direct()
	for _, m := range channels.Members {
		channel, err := follow(r.doc, m.Value)
		if err != nil {
			r.leaveOut(m.KeyRange, "channel "+m.Key, err.Error())
			continue
		}
		r.channel(m.Key, channel)
	}
}

type reader struct {
	doc    *source.Node
	events []importer.Event
	names  map[string]bool
	found  []source.Diagnostic
	// sent and received are the channels of operations, by node.
	sent, received map[*source.Node]bool
}

func (r *reader) leaveOut(at source.Range, what, why string) {
	r.found = append(r.found, source.New("MCPE511", at, "%s is left out: %s", what, why))
}

// direct notes what operations say about the direction of channels.
func (r *reader) direct() {
	r.sent, r.received = map[*source.Node]bool{}, map[*source.Node]bool{}
	for _, m := range members(r.doc.Get("operations")) {
		operation, err := follow(r.doc, m.Value)
		if err != nil {
			continue
		}
		action := operation.Get("action")
		ref := operation.Get("channel")
		if action == nil || ref == nil {
			continue
		}
		if channel, err := follow(r.doc, ref); err == nil {
			if action.Text == "send" {
				r.sent[channel] = true
			} else {
				r.received[channel] = true
			}
		}
	}
}

func (r *reader) channel(id string, channel *source.Node) {
	messages := channel.Get("messages")
	if messages == nil || len(messages.Members) == 0 {
		return
	}
	if r.received[channel] && !r.sent[channel] && len(r.sent) > 0 {
		_, at := channel.Key()
		r.leaveOut(at, "channel "+id, "the application only receives its messages")
		return
	}
	for _, m := range messages.Members {
		message, err := follow(r.doc, m.Value)
		if err == nil {
			err = r.message(id, channel, m.Key, message, len(messages.Members) == 1)
		}
		if err != nil {
			r.leaveOut(m.KeyRange, "message "+m.Key, err.Error())
		}
	}
}

func (r *reader) message(id string, channel *source.Node, key string, message *source.Node, only bool) error {
	payload, err := r.payload(message)
	if err != nil {
		return err
	}
	_, at := message.Key()
	e := importer.Event{At: at}
	e.PayloadSchema = payload.JSON()
	e.InputSchema = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	name := key
	if n := message.Get("name"); n != nil && n.Text != "" {
		name = n.Text
	}
	x := channel.Get(extension)
	if x != nil && only {
		name = id
		if err := r.restore(&e, x); err != nil {
			return err
		}
	}
	e.Name = r.name(id, name)
	e.Description = description(message, channel, e.Name)
	if message.Get("deprecated").True() && e.Deprecated == nil {
		e.Deprecated = &schema.Deprecated{}
	}
	if exact := x.Get("exact").Get("event"); exact != nil && only && textOf(x.Get("exact").Get("of")) == digest(canonical(importer.Node(e))) {
		e.Node = r.kept(exact) // the document still says what it was made of
	}
	r.events = append(r.events, e)
	return nil
}

// name makes a name that an event file can hold and no other event has.
func (r *reader) name(channel, message string) string {
	name := importer.CleanName(message)
	if name == "" || r.names[name] {
		name = strings.Trim(importer.CleanName(channel)+"."+name, ".")
	}
	base := name
	for i := 2; r.names[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	r.names[name] = true
	return name
}

func description(message, channel *source.Node, name string) string {
	for _, n := range []*source.Node{message, channel} {
		for _, key := range []string{"description", "summary", "title"} {
			if d := n.Get(key); d != nil && strings.TrimSpace(d.Text) != "" {
				return d.Text
			}
		}
	}
	return "A message " + name + "."
}

// payload is the schema of a message, standing by itself.
func (r *reader) payload(message *source.Node) (*source.Node, error) {
	n := message.Get("payload")
	for _, trait := range traits(r.doc, message) {
		if n == nil {
			n = trait.Get("payload")
		}
	}
	if n == nil {
		return nil, fmt.Errorf("it has no payload")
	}
	n, err := follow(r.doc, n)
	if err != nil {
		return nil, err
	}
	format := message.Get("schemaFormat") // of version 2
	if inner := n.Get("schema"); inner != nil && format == nil {
		format, n = n.Get("schemaFormat"), inner
	}
	if format != nil && !isJSONSchema(format.Text) {
		return nil, fmt.Errorf("its payload is written in %s, not in JSON Schema", format.Text)
	}
	out, err := standalone(r.doc, n)
	if err != nil {
		return nil, err
	}
	if out.Kind != source.Object {
		return nil, fmt.Errorf("its payload is not described")
	}
	return out, nil
}

func traits(doc, message *source.Node) []*source.Node {
	list := message.Get("traits")
	if list == nil {
		return nil
	}
	var all []*source.Node
	for _, item := range list.Items {
		if t, err := follow(doc, item); err == nil {
			all = append(all, t)
		}
	}
	return all
}

// isJSONSchema reports whether a schemaFormat is one of those that are JSON Schema, AsyncAPI's own
// included.
func isJSONSchema(format string) bool {
	kind, _, _ := strings.Cut(strings.ToLower(format), ";")
	switch kind {
	case "application/vnd.aai.asyncapi", "application/vnd.aai.asyncapi+json", "application/vnd.aai.asyncapi+yaml", "application/schema+json", "application/schema+yaml":
		return true
	}
	return false
}

// restore reads what Export kept in the extension.
func (r *reader) restore(e *importer.Event, x *source.Node) error {
	for _, n := range items(x.Get("delivery")) {
		e.Delivery = append(e.Delivery, n.Text)
	}
	e.Source, e.Stability = textOf(x.Get("source")), textOf(x.Get("stability"))
	if n := x.Get("replay"); n != nil && n.Kind == source.Bool {
		e.NoReplay = !n.True()
	}
	if d := x.Get("deprecated"); d != nil {
		e.Deprecated = &schema.Deprecated{ReplacedBy: textOf(d.Get("replacedBy")), RemoveAfter: textOf(d.Get("removeAfter"))}
	}
	if meta := x.Get("_meta"); meta != nil {
		e.Meta, _ = meta.Value().(map[string]any)
	}
	for _, n := range items(x.Get("match")) {
		e.Match = append(e.Match, schema.MatchRule{Argument: textOf(n.Get("argument")), Path: textOf(n.Get("path")), Op: textOf(n.Get("op"))})
	}
	if input := x.Get("inputSchema"); input != nil {
		n, err := standalone(r.doc, input)
		if err != nil {
			return err
		}
		e.InputSchema = n.JSON()
	}
	if exact := x.Get("exact"); exact != nil {
		input, payload := textOf(exact.Get("inputSchema")), textOf(exact.Get("payloadSchema"))
		if json.Valid([]byte(input)) && json.Valid([]byte(payload)) {
			e.InputSchema, e.PayloadSchema = json.RawMessage(input), json.RawMessage(payload)
		}
	}
	return nil
}

func items(n *source.Node) []*source.Node {
	if n == nil {
		return nil
	}
	return n.Items
}

func textOf(n *source.Node) string {
	if n == nil {
		return ""
	}
	return n.Text
}

// Text writes a document as YAML, or as JSON.
func Text(doc *source.Node, asJSON bool) ([]byte, error) {
	if !asJSON {
		return []byte(yaml.Block(doc, 0)), nil
	}
	var v json.RawMessage = doc.JSON()
	return json.MarshalIndent(v, "", "  ")
}
