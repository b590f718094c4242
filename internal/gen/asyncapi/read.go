package asyncapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/openapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
)

// Read returns the event types of an AsyncAPI document of version 2 or 3. Each message that the application sends
// becomes an event type. If the document has no operations, all messages do. It reports an error for other documents
// (MCPE510, or a syntax error). Read skips messages that cannot become event types, with a warning (MCPE511).
func Read(path string, data []byte) (importer.Document, []source.Diagnostic) {
	doc, found := source.ParseForeign(path, data)
	if source.HasErrors(found) {
		return importer.Document{}, found
	}
	out, more := ReadDocument(doc)
	return out, append(found, more...)
}

// ReadDocument is like [Read] for a parsed document.
func ReadDocument(doc *source.Node) (importer.Document, []source.Diagnostic) {
	r := newReader(doc)
	version, channels := doc.Get("asyncapi"), doc.Get("channels")
	switch {
	case version == nil || !strings.HasPrefix(version.Text, "3.") && !strings.HasPrefix(version.Text, "2."):
		at := doc.Range
		if version != nil {
			at = version.Range
		}
		return importer.Document{}, []source.Diagnostic{source.New("MCPE510", at, "this is not an AsyncAPI document of version 2 or 3").
			WithHint("its first line would be asyncapi: %s; convert an older one first", Version)}
	case channels == nil || channels.Kind != source.Object:
		return importer.Document{}, []source.Diagnostic{source.New("MCPE510", doc.Range, "the document has no channels").
			WithHint("an AsyncAPI document lists its channels under channels:")}
	}
	out := importer.Document{Title: doc.Get("info").Word("title")}
	if strings.HasPrefix(version.Text, "2.") {
		r.readVersion2(channels)
	} else {
		r.readVersion3(channels)
	}
	out.Events = r.events
	r.restorePackage(&out)
	return out, source.Sort(r.found)
}

// restorePackage restores the contents of event files that Export stored in rootExtension.
func (r *reader) restorePackage(out *importer.Document) {
	x := r.doc.Get(rootExtension)
	if x == nil {
		return
	}
	out.Package = x.Word("name")
	lines := func(of string) (list []string) {
		for _, n := range x.Get("comments").ItemsAt(of) {
			list = append(list, n.Text)
		}
		return list
	}
	out.Comments = lines("")
	for i := range out.Events {
		out.Events[i].Comments = lines("/events/" + out.Events[i].Name)
	}
	for _, m := range x.MembersAt("schemas") {
		if n := r.parseStored(m.Value); n != nil {
			out.Schemas = append(out.Schemas, importer.Schema{Name: m.Key, Node: n, Own: true, At: m.KeyRange, Comments: lines("/schemas/" + m.Key)})
		}
	}
	out.Tasks, out.Conversation = r.parseStored(x.Get("tasks")), r.parseStored(x.Get("conversation"))
}

// parseStored parses a stored part of an event file. It returns nil if the part is absent.
func (r *reader) parseStored(n *source.Node) *source.Node {
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

// readVersion3 reads the channels of a version 3 document.
func (r *reader) readVersion3(channels *source.Node) {
	r.readDirections()
	for _, m := range channels.Members {
		channel, err := importer.Follow(r.doc, m.Value)
		if err != nil {
			r.leaveOut(m.KeyRange, "channel "+m.Key, err.Error())
			continue
		}
		r.readChannel(m.Key, channel)
	}
}

type reader struct {
	doc    *source.Node
	events []importer.Event
	names  map[string]bool
	found  []source.Diagnostic
	// sent and received are the sets of channels with a send or a receive operation.
	sent, received map[*source.Node]bool
	// texts caches the results of the method text.
	texts map[*source.Node]*schemaText
	// reported is the set of discriminators for which a diagnostic was reported.
	reported map[*source.Node]bool
}

func newReader(doc *source.Node) *reader {
	return &reader{doc: doc, names: map[string]bool{}, texts: map[*source.Node]*schemaText{}, reported: map[*source.Node]bool{}}
}

func (r *reader) leaveOut(at source.Range, what, why string) {
	r.found = append(r.found, source.New("MCPE511", at, "%s is left out: %s", what, why))
}

// readDirections determines the direction of each channel from the operations.
func (r *reader) readDirections() {
	r.sent, r.received = map[*source.Node]bool{}, map[*source.Node]bool{}
	for _, m := range r.doc.MembersAt("operations") {
		operation, err := importer.Follow(r.doc, m.Value)
		if err != nil {
			continue
		}
		action := operation.Get("action")
		ref := operation.Get("channel")
		if action == nil || ref == nil {
			continue
		}
		if channel, err := importer.Follow(r.doc, ref); err == nil {
			if action.Text == "send" {
				r.sent[channel] = true
			} else {
				r.received[channel] = true
			}
		}
	}
}

func (r *reader) readChannel(id string, channel *source.Node) {
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
		message, err := importer.Follow(r.doc, m.Value)
		if err == nil {
			err = r.readMessage(id, channel, m.Key, message, len(messages.Members) == 1)
		}
		if err != nil {
			r.leaveOut(m.KeyRange, "message "+m.Key, err.Error())
		}
	}
}

func (r *reader) readMessage(id string, channel *source.Node, key string, message *source.Node, only bool) error {
	d, err := r.described(id, channel, key, message, only)
	if err != nil {
		return err
	}
	e := &d.event
	e.Name = r.uniqueName(id, e.Name)
	d.describe(message, channel)
	exact := channel.Get(channelExtension).Get("exact")
	if kept := exact.Get("event"); kept != nil && only {
		if _, said := r.descriptionHash(d); said == exact.Word("of") {
			e.Node = r.parseStored(kept) // the document is unchanged since the export
		}
	}
	if e.Node == nil {
		if err := r.addSchemas(d); err != nil {
			return err
		}
	}
	r.events = append(r.events, *e)
	return nil
}

// A sentMessage is an event type without schemas, and the schemas in the document. input is nil if the document has no
// input schema.
type sentMessage struct {
	event          importer.Event
	payload, input *source.Node
	exact          *source.Node
	format         string // the schemaFormat of payload, "" for none
}

func (r *reader) described(id string, channel *source.Node, key string, message *source.Node, only bool) (*sentMessage, error) {
	payload, format, err := r.payloadSchema(message)
	if err != nil {
		return nil, err
	}
	_, at := message.Key()
	d := &sentMessage{event: importer.Event{At: at}, payload: payload, format: format}
	e := &d.event
	e.Name = cmp.Or(message.Word("name"), key)
	if x := channel.Get(channelExtension); x != nil && only {
		e.Name = id
		restoreEvent(e, x)
		e.Own = true
		d.input, d.exact = x.Get("inputSchema"), x.Get("exact")
	}
	return d, nil
}

func (d *sentMessage) describe(message, channel *source.Node) {
	d.event.Description = description(message, channel, d.event.Name)
	if message.Get("deprecated").True() && d.event.Deprecated == nil {
		d.event.Deprecated = &schema.Deprecated{}
	}
}

// addSchemas sets the schemas of the event to copies that are independent of the document.
func (r *reader) addSchemas(d *sentMessage) error {
	payload, inherited, err := standaloneCopy(r.doc, d.payload)
	if err != nil {
		return err
	}
	if payload.Kind != source.Object {
		return fmt.Errorf("its payload is not described")
	}
	if version := openAPIVersion(d.format); version != "" {
		var changed []source.Diagnostic
		if payload, changed, err = openapi.Schema(payload, version); err != nil {
			return err
		}
		r.found = append(r.found, changed...)
	}
	if dialect := dialectOf(d.format); dialect != "" && payload.Get("$schema") == nil {
		payload.Members = append([]source.Member{{Key: "$schema", Value: yaml.Text(dialect)}}, payload.Members...)
	}
	d.event.PayloadSchema = payload.JSON()
	d.event.InputSchema = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	if d.input != nil {
		n, more, err := standaloneCopy(r.doc, d.input)
		if err != nil {
			return err
		}
		inherited = append(inherited, more...)
		d.event.InputSchema = n.JSON()
	}
	input, kept := d.exact.Word("inputSchema"), d.exact.Word("payloadSchema")
	if json.Valid([]byte(input)) && json.Valid([]byte(kept)) {
		d.event.InputSchema, d.event.PayloadSchema = json.RawMessage(input), json.RawMessage(kept)
		return nil
	}
	for _, discriminator := range inherited {
		r.reportUnlisted(discriminator)
	}
	return nil
}

// reportUnlisted reports a discriminator whose schema does not list its subtypes, which instead refer to it in allOf.
// It reports each discriminator only once.
func (r *reader) reportUnlisted(discriminator *source.Node) {
	if !r.reported[discriminator] {
		r.reported[discriminator] = true
		r.found = append(r.found, source.New("MCPE502", discriminator.Range, "the discriminator %q is left out, and its subtypes are not told apart: the schema does not list them", discriminator.Text).
			WithHint("give the schema a oneOf of its subtypes, each with a const for %s", discriminator.Text))
	}
}

// A schemaText contains a hash of a schema and lists the schemas to which it refers.
type schemaText struct {
	sum  string
	refs []*source.Node
}

func (r *reader) text(n *source.Node) *schemaText {
	if t := r.texts[n]; t != nil {
		return t
	}
	t := &schemaText{sum: digest(entryKey(n))}
	r.texts[n] = t
	importer.EachReference(n, func(ref *source.Node) {
		if _, to, err := importer.Resolve(r.doc, ref.Text); err == nil && !slices.Contains(t.refs, to) {
			t.refs = append(t.refs, to)
		}
	})
	return t
}

// descriptionHash returns the number of schemas reachable from an event type, and a hash of the event type and these
// schemas.
func (r *reader) descriptionHash(d *sentMessage) (schemas int, sum string) {
	e := d.event
	e.InputSchema, e.PayloadSchema = json.RawMessage("{}"), json.RawMessage("{}")
	rules, err := json.Marshal(e.Match)
	if err != nil {
		rules = nil // only strings
	}
	var text strings.Builder
	text.WriteString(entryKey(importer.Node(e)) + string(rules))
	var all []*source.Node
	seen := map[*source.Node]bool{}
	add := func(nodes ...*source.Node) {
		for _, n := range nodes {
			if n != nil && !seen[n] {
				seen[n] = true
				all = append(all, n)
			}
		}
	}
	add(d.payload, d.input)
	for i := 0; i < len(all); i++ {
		t := r.text(all[i])
		text.WriteString("\n" + t.sum)
		add(t.refs...)
	}
	return len(all), digest(text.String())
}

// maxCompared is the maximum number of schemas of an event type for which compareExported compares entries.
const maxCompared = 50

// compareExported compares an event file entry with its export. It returns the descriptionHash of the export, and
// reports whether an import would restore the entry.
func (r *reader) compareExported(name string, entry *source.Node) (said string, restored bool) {
	channel, message := r.doc.Get("channels").Get(name), r.doc.Get("components").Get("messages").Get(name)
	d, err := r.described(name, channel, name, message, true)
	if err != nil {
		return "", false
	}
	d.describe(message, channel)
	schemas, said := r.descriptionHash(d)
	if schemas > maxCompared || r.addSchemas(d) != nil {
		return said, false
	}
	return said, entryKey(importer.Node(d.event)) == entryKey(entry)
}

// uniqueName returns a valid event name that is not used by another event.
func (r *reader) uniqueName(channel, message string) string {
	name := importer.CleanName(message)
	if name == "" || r.names[name] {
		name = strings.Trim(importer.CleanName(channel)+"."+name, ".")
	}
	return importer.UniqueName(name, "-", r.names)
}

func description(message, channel *source.Node, name string) string {
	return cmp.Or(importer.Description([]string{"description", "summary", "title"}, message, channel), "A message "+name+".")
}

// payloadSchema returns the payload schema of a message and its schemaFormat.
func (r *reader) payloadSchema(message *source.Node) (*source.Node, string, error) {
	n := message.Get("payload")
	for _, trait := range traits(r.doc, message) {
		if n == nil {
			n = trait.Get("payload")
		}
	}
	if n == nil {
		return nil, "", fmt.Errorf("it has no payload")
	}
	n, err := importer.Follow(r.doc, n)
	if err != nil {
		return nil, "", err
	}
	format := message.Word("schemaFormat") // in version 2
	if inner := n.Get("schema"); inner != nil && format == "" {
		format, n = n.Word("schemaFormat"), inner
	}
	if format != "" && !isJSONSchema(format) && openAPIVersion(format) == "" {
		return nil, "", fmt.Errorf("its payload is written in %s, not in JSON Schema", format)
	}
	return n, format, nil
}

func traits(doc, message *source.Node) []*source.Node {
	list := message.Get("traits")
	if list == nil {
		return nil
	}
	var all []*source.Node
	for _, item := range list.Items {
		if t, err := importer.Follow(doc, item); err == nil {
			all = append(all, t)
		}
	}
	return all
}

// restoreEvent sets the details of an event from the channel extension x.
func restoreEvent(e *importer.Event, x *source.Node) {
	for _, n := range x.ItemsAt("delivery") {
		e.Delivery = append(e.Delivery, n.Text)
	}
	e.Source, e.Stability = x.Word("source"), x.Word("stability")
	if n := x.Get("replay"); n != nil && n.Kind == source.Bool {
		e.NoReplay = !n.True()
	}
	if d := x.Get("deprecated"); d != nil {
		e.Deprecated = &schema.Deprecated{ReplacedBy: d.Word("replacedBy"), RemoveAfter: d.Word("removeAfter")}
	}
	if meta := x.Get("_meta"); meta != nil {
		e.Meta, _ = meta.Value().(map[string]any)
	}
	for _, n := range x.ItemsAt("match") {
		e.Match = append(e.Match, schema.MatchRule{Argument: n.Word("argument"), Path: n.Word("path"), Op: n.Word("op"), Not: n.Get("not").True()})
	}
}

// Text returns a document as YAML or JSON.
func Text(doc *source.Node, asJSON bool) ([]byte, error) {
	if !asJSON {
		return []byte(yaml.Block(doc, 0)), nil
	}
	var v json.RawMessage = doc.JSON()
	return json.MarshalIndent(v, "", "  ")
}
