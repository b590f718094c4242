package asyncapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/sample"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Version is the AsyncAPI version that Export writes.
const Version = "3.0.0"

// channelExtension is the channel member for details of an event that AsyncAPI cannot express.
const channelExtension = "x-mcp-event"

// rootExtension is the document member for the contents of event files that do not belong to a single event.
const rootExtension = "x-mcp-package"

// Options describes the document. AsyncAPI requires title and version.
type Options struct {
	Title, Version string
	// ReadFile reads the comments of an event file; nil omits comments.
	ReadFile func(path string) ([]byte, error)
}

// Export returns the AsyncAPI document for the events of the given files. A note (MCPE520) reports each payload that
// the document describes less precisely than the event file. The extensions x-mcp-event and x-mcp-package contain
// details that [Read] could not otherwise restore.
func Export(set *schema.Set, o Options) (*source.Node, []source.Diagnostic) {
	x := &exporter{set: set, channels: yaml.Object(), operations: yaml.Object(), messages: yaml.Object(), schemas: yaml.Object(), sources: map[string]any{}}
	for _, f := range set.Files {
		for _, e := range f.Events {
			x.event(e)
		}
	}
	info := yaml.Object()
	yaml.Set(info, "title", yaml.Text(o.Title))
	yaml.Set(info, "version", yaml.Text(o.Version))
	yaml.Set(info, "description", yaml.Text("Event types of an MCP server, delivered by the Events extension ("+wire.ExtensionID+")."))
	components := yaml.Object()
	yaml.Set(components, "messages", x.messages)
	if len(x.schemas.Members) > 0 {
		yaml.Set(components, "schemas", x.schemas)
	}
	doc := yaml.Object()
	yaml.Set(doc, "asyncapi", yaml.Text(Version))
	yaml.Set(doc, "info", info)
	yaml.Set(doc, "defaultContentType", yaml.Text("application/json"))
	yaml.Set(doc, "channels", x.channels)
	yaml.Set(doc, "operations", x.operations)
	yaml.Set(doc, "components", components)
	x.storeRemainder(doc, importer.Merge(set, o.ReadFile))
	return doc, source.Sort(x.found)
}

type exporter struct {
	set                                     *schema.Set
	channels, operations, messages, schemas *source.Node
	// sources maps the name of a component to its shared definition, or to the text of its unshared definition.
	sources map[string]any
	samples sample.Maker
	events  []*schema.Event
	found   []source.Diagnostic
}

func (x *exporter) event(e *schema.Event) {
	x.events = append(x.events, e)
	payload := x.set.Shared(e.Payload)
	message := yaml.Object()
	yaml.Set(message, "name", yaml.Text(e.Name))
	yaml.Set(message, "contentType", yaml.Text("application/json"))
	yaml.Set(message, "description", yaml.Text(e.Description))
	if e.Deprecated != nil {
		yaml.Set(message, "deprecated", yaml.Flag(true))
	}
	at := "#" + wire.Pointer("components", "messages", e.Name, "payload")
	yaml.Set(message, "payload", x.convertSchema(e, "payloadSchema", payload, at))
	if v, ok := x.samples.Example(payload); ok {
		if n := x.parseJSON(e, "the example", v); !containsRef(n) {
			example := yaml.Object()
			yaml.Set(example, "name", yaml.Text("generated"))
			yaml.Set(example, "payload", n)
			yaml.Set(message, "examples", yaml.List(example))
		}
	}
	yaml.Set(x.messages, e.Name, message)

	channel := yaml.Object()
	yaml.Set(channel, "address", yaml.Text(e.Name))
	yaml.Set(channel, "description", yaml.Text(e.Description))
	yaml.Set(channel, "messages", member(e.Name, importer.Reference("#/components/messages"+wire.Pointer(e.Name))))
	yaml.Set(channel, channelExtension, x.eventExtension(e))
	yaml.Set(x.channels, e.Name, channel)

	operation := yaml.Object()
	yaml.Set(operation, "action", yaml.Text("send"))
	yaml.Set(operation, "channel", importer.Reference("#/channels"+wire.Pointer(e.Name)))
	yaml.Set(operation, "summary", yaml.Text(e.Description))
	yaml.Set(operation, "messages", yaml.List(importer.Reference("#"+wire.Pointer("channels", e.Name, "messages", e.Name))))
	yaml.Set(x.operations, e.Name, operation)
}

func member(key string, v *source.Node) *source.Node {
	n := yaml.Object()
	yaml.Set(n, key, v)
	return n
}

// parseJSON parses raw, which belongs to an event. If it is invalid, parseJSON reports an error at the event and
// returns an empty object.
func (x *exporter) parseJSON(e *schema.Event, what string, raw json.RawMessage) *source.Node {
	n, found := source.Parse("json", raw)
	if source.HasErrors(found) {
		x.found = append(x.found, source.New(found[0].Code, e.NameRange, "%s of %s cannot be exported: %s", what, e.Name, found[0].Message))
		return yaml.Object()
	}
	return n
}

// eventExtension returns the details of an event that AsyncAPI cannot express.
func (x *exporter) eventExtension(e *schema.Event) *source.Node {
	n := yaml.Object()
	if len(e.Delivery) > 0 {
		yaml.Set(n, "delivery", yaml.Texts(e.Delivery))
	}
	yaml.Set(n, "source", yaml.Text(e.Source))
	yaml.Set(n, "replay", yaml.Flag(e.Replay))
	yaml.Set(n, "stability", yaml.Text(e.Stability))
	if e.Deprecated != nil {
		yaml.Set(n, "deprecated", importer.Deprecation(*e.Deprecated))
	}
	if meta := e.PublishedMeta(); meta != nil {
		if v := x.parseJSON(e, "_meta", meta); containsRef(v) {
			x.addNote(e, "_meta", "a member $ref")
		} else {
			yaml.Set(n, "_meta", v)
		}
	}
	at := "#" + wire.Pointer("channels", e.Name, channelExtension, "inputSchema")
	yaml.Set(n, "inputSchema", x.convertSchema(e, "inputSchema", x.set.Shared(e.Input), at))
	if len(e.Match) > 0 {
		rules := yaml.List()
		for _, m := range e.Match {
			rule := yaml.Object()
			yaml.Set(rule, "argument", yaml.Text(m.Argument))
			yaml.Set(rule, "path", yaml.Text(m.Path))
			yaml.Set(rule, "op", yaml.Text(m.Op))
			if m.Not {
				yaml.Set(rule, "not", yaml.Flag(true))
			}
			rules.Items = append(rules.Items, rule)
		}
		yaml.Set(n, "match", rules)
	}
	return n
}

// convertSchema converts a published schema for the document, in which at refers to it. It moves the definitions to the
// components of the document.
func (x *exporter) convertSchema(e *schema.Event, part string, shared *published.Schema, at string) *source.Node {
	root := x.parseJSON(e, part, shared.Short())
	c := &converter{root: root, location: at, draft07: isDraft07(root), defs: map[string]string{}}
	fresh := map[string]*source.Node{} // definitions of new components
	var order []string
	add := func(key, name string, of any, n *source.Node) {
		component, known := x.componentFor(e, name, of)
		c.defs[wire.Pointer(key, name)] = component
		if !known {
			fresh[component] = n
			order = append(order, component)
		}
	}
	for _, key := range schematree.DefinitionKeywords {
		if defs := root.Get(key); defs != nil && defs.Kind == source.Object && len(defs.Members) > 0 {
			whole := x.parseJSON(e, part, shared.JSON())
			for _, m := range defs.Members {
				add(key, m.Key, definitionKey(whole, m.Value, e.Name+part), m.Value)
			}
		}
	}
	key := "$defs"
	if c.draft07 {
		key = "definitions"
	}
	for _, d := range shared.Definitions() {
		n := x.samples.Parsed.Definition(d)
		if n == nil {
			n = x.parseJSON(e, part, d.Head) // parsed reports the error
		}
		add(key, d.Name, d, n)
	}
	for _, name := range order {
		yaml.Set(x.schemas, name, c.convert(fresh[name]))
	}
	n := c.convert(root)
	slices.Sort(c.unsupported)
	for _, keyword := range slices.Compact(c.unsupported) {
		x.addNote(e, part, keyword)
	}
	return n
}

// addNote adds a note (MCPE520) about a detail that the document omits.
func (x *exporter) addNote(e *schema.Event, part, what string) {
	x.found = append(x.found, source.New("MCPE520", e.NameRange, "%s of %s uses %s, which AsyncAPI cannot express", part, e.Name, what))
}

// componentFor returns the name for a definition in components/schemas. known reports whether the component already
// exists, because definitions with equal text and references share a component. If a different definition already has
// the name, componentFor prepends the event name.
func (x *exporter) componentFor(e *schema.Event, name string, of any) (component string, known bool) {
	plain := componentName(name)
	candidate := plain
	for i := 1; x.sources[candidate] != nil && !sameDefinition(x.sources[candidate], of); i++ {
		candidate = e.Name + "." + plain
		if i > 1 {
			candidate = fmt.Sprintf("%s.%s_%d", e.Name, plain, i)
		}
	}
	known = x.sources[candidate] != nil
	if !known {
		x.sources[candidate] = of
	}
	return candidate, known
}

// sameDefinition reports whether two definitions and all definitions reachable from them are equal.
func sameDefinition(a, b any) bool {
	if a == b {
		return true
	}
	s, ok1 := a.(*published.Schema)
	t, ok2 := b.(*published.Schema)
	if !ok1 || !ok2 {
		return false
	}
	equal := func(s, t *published.Schema) bool {
		return s.Name == t.Name && bytes.Equal(s.Head, t.Head) && refersOnlyToDefinitions(s.Head) // otherwise it may refer to its event
	}
	return equal(s, t) && slices.EqualFunc(s.Definitions(), t.Definitions(), equal)
}

// refersOnlyToDefinitions reports whether all references in a definition refer to definitions.
func refersOnlyToDefinitions(text []byte) bool {
	return bytes.Count(text, []byte(`"$ref":"#`)) == bytes.Count(text, []byte(`"$ref":"#/$defs/`))+bytes.Count(text, []byte(`"$ref":"#/definitions/`))
}

// definitionKey returns the text of a definition and of all definitions reachable from it, so equal definitions have
// equal keys.
func definitionKey(root, def *source.Node, owner string) string {
	var b strings.Builder
	seen := map[*source.Node]bool{}
	var add func(*source.Node)
	var walk func(_, _ string, n *source.Node)
	add = func(n *source.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		b.Write(n.JSON())
		walk("", "", n)
	}
	walk = func(_, _ string, n *source.Node) {
		if ref := n.Get("$ref"); ref != nil && ref.Kind == source.String {
			to, ok := schematree.Resolve(root, ref.Text)
			if ok && (strings.HasPrefix(ref.Text, "#/$defs/") || strings.HasPrefix(ref.Text, "#/definitions/")) {
				add(to)
			} else {
				b.WriteString(owner) // the reference leads into the schema of the event
			}
		}
		schematree.Each(schematree.Any, n, walk)
	}
	add(def)
	return b.String()
}

func componentName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '.' || r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') {
			return r
		}
		return '_'
	}, name)
}

// storeRemainder stores what an import could not otherwise restore: shared schemas, tasks, the conversation, and event
// entries that would differ. It finds these entries by importing the document. It stores them as strings, because
// readers would resolve references in objects relative to the document. An import uses a stored entry only if the
// event's description in the document has not changed.
func (x *exporter) storeRemainder(doc *source.Node, whole importer.Document) {
	r := newReader(doc)
	comments := yaml.Object()
	remark := func(of string, lines []string) {
		if len(lines) > 0 {
			yaml.Set(comments, of, yaml.Texts(lines))
		}
	}
	remark("", whole.Comments)
	for _, e := range whole.Events {
		remark("/events/"+e.Name, e.Comments)
		said, restored := r.compareExported(e.Name, e.Node)
		if restored {
			continue
		}
		exact := yaml.Object()
		yaml.Set(exact, "event", yaml.Text(string(e.Node.JSON())))
		yaml.Set(exact, "of", yaml.Text(said))
		yaml.Set(x.channels.Get(e.Name).Get(channelExtension), "exact", exact)
	}
	root := yaml.Object()
	if whole.Package != "" {
		yaml.Set(root, "name", yaml.Text(whole.Package))
	}
	if len(whole.Schemas) > 0 {
		schemas := yaml.Object()
		for _, s := range whole.Schemas {
			remark("/schemas/"+s.Name, s.Comments)
			yaml.Set(schemas, s.Name, yaml.Text(string(s.Node.JSON())))
		}
		yaml.Set(root, "schemas", schemas)
	}
	for _, m := range []source.Member{{Key: "tasks", Value: whole.Tasks}, {Key: "conversation", Value: whole.Conversation}} {
		if m.Value != nil {
			yaml.Set(root, m.Key, yaml.Text(string(m.Value.JSON())))
		}
	}
	if len(comments.Members) > 0 {
		yaml.Set(root, "comments", comments)
	}
	if len(root.Members) > 0 {
		yaml.Set(doc, rootExtension, root)
	}
}

// entryKey returns a string for comparing entries. It ignores default values and the order of members.
func entryKey(n *source.Node) string {
	if n == nil {
		return ""
	}
	plain := yaml.Object()
	for _, m := range n.Members {
		if said, ok := defaultValues[m.Key]; !ok || m.Value.Text != said {
			plain.Members = append(plain.Members, m)
		}
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(plain.JSON()))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(n.JSON())
	}
	text, err := json.Marshal(v) // Marshal sorts members
	if err != nil {
		return string(n.JSON())
	}
	return string(text)
}

// defaultValues maps the keys of event entries to their default values.
var defaultValues = map[string]string{"source": "emit", "replay": "true", "stability": "stable"}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}
