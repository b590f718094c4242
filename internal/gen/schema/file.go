package schema

import (
	"errors"
	"fmt"
	"go/token"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var (
	toolForm   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	goTypeForm = regexp.MustCompile(`^(([A-Za-z0-9_.~-]+/)*[A-Za-z0-9_.~-]+\.)?[A-Za-z_][A-Za-z0-9_]*$`)
)

// foreignFormats maps the key that identifies a document of another format to the name of the format.
var foreignFormats = []struct{ key, format string }{{"openapi", "OpenAPI"}, {"swagger", "OpenAPI"}, {"asyncapi", "AsyncAPI"}}

// Foreign returns the format of an OpenAPI or AsyncAPI document, and the member that declares it. It returns "" for
// other documents.
func Foreign(doc *source.Node) (format string, says *source.Member) {
	for _, f := range foreignFormats {
		if m := doc.Member(f.key); m != nil && (m.Value.Kind == source.String || m.Value.Kind == source.Number) {
			return f.format, m
		}
	}
	return "", nil
}

// readFile reads all sections of an event file.
func (l *loader) readFile(f *File) {
	if format, m := Foreign(f.Root); m != nil && f.Root.Get("events") == nil {
		l.Report(source.New("MCPE120", m.KeyRange, "this is a document of %s, not an event file", format).
			WithHint("mcpe-gen import makes an event file of it"))
		return
	}
	o := l.Object(f.Root, "the event file", []string{"version"}, []string{"package", "dialect", "schemas", "events", "tasks", "conversation"})
	if o == nil {
		return
	}
	if v := f.Root.Get("version"); v != nil && (v.Kind != source.Number || v.Text != "1") {
		l.Report(source.New("MCPE127", v.Range, "version %s of the event file is not known", v.JSON()).WithHint("write version: 1"))
	}
	if name, n := o.Text("package"); n != nil {
		if l.goPackage(name, n.Range) {
			f.Package = name
		}
	}
	l.readFileDialect(f, o)
	if s := f.Root.Get("schemas"); s != nil && l.Is(s, source.Object, "schemas") {
		for _, m := range s.Members {
			l.checkName(m.Key, m.KeyRange, "a schema")
			e := &Entry{Name: m.Key, File: f, Node: m.Value, NameRange: m.KeyRange}
			f.Schemas = append(f.Schemas, e)
			f.named[m.Key] = e
			l.addEntry(&root{file: f, node: m.Value, entry: e, name: m.Key})
		}
	}
	for _, n := range o.List("events") {
		l.readEvent(f, n)
	}
	for _, n := range o.List("tasks") {
		l.readTask(f, n)
	}
	if m := f.Root.Member("conversation"); m != nil {
		l.readConversation(f, m)
	}
}

// addEntry adds the root of an entry of schemas.
func (l *loader) addEntry(r *root) {
	l.entries[r.entry] = r
	l.roots = append(l.roots, r)
}

// readDocument reads a file that is a plain JSON Schema. The schema becomes the file's only entry and is named after
// the file.
func (l *loader) readDocument(f *File, base *url.URL, from *root) {
	f.Document = true
	f.Stem = strings.TrimSuffix(f.Stem, ".schema")
	e := &Entry{Name: f.Stem, File: f, Node: f.Root, NameRange: f.Root.Range}
	f.Schemas = append(f.Schemas, e)
	l.addEntry(&root{file: f, node: f.Root, entry: e, name: f.Stem, base: base, referrer: from})
}

func (l *loader) goPackage(name string, at source.Range) bool {
	err := CheckPackage(name)
	if err != nil {
		l.Report(source.New("MCPE124", at, "%v", err).WithHint("use lower-case ASCII letters and digits, begin with a letter, and use no Go keyword"))
	}
	return err == nil
}

// CheckPackage returns an error if name is not a valid name for a generated package.
func CheckPackage(name string) error {
	switch {
	case name == "main":
		return errors.New("package main cannot be imported")
	case !token.IsIdentifier(name) || name == "_":
		return fmt.Errorf("%q cannot name a Go package", name)
	}
	return nil
}

// checkName reports an invalid name of an event or a schema.
func (l *loader) checkName(name string, at source.Range, what string) {
	if wire.CheckEventName(name) != nil {
		l.Report(source.New("MCPE124", at, "%q cannot name %s", name, what).WithHint(wire.NameForm))
	}
}

func (l *loader) readEvent(f *File, n *source.Node) {
	o := l.Object(n, "the event", []string{"name", "description", "inputSchema", "payloadSchema"},
		[]string{"delivery", "source", "replay", "stability", "deprecated", "mcpe", "from", "_meta", "x-actor", "x-coalesce", "x-go-name", "x-tool-name", "x-tool-args"})
	if o == nil {
		return
	}
	e := &Event{File: f, Node: n, NameRange: n.Range}
	f.Events = append(f.Events, e)
	if name, at := o.Text("name"); at != nil {
		e.Name, e.NameRange = name, at.Range
		if l.events == nil {
			l.events = make(map[string]*Event)
		}
		if first := l.events[name]; first != nil {
			l.Report(source.New("MCPE125", at.Range, "event %q is described twice", name).WithRelated(first.NameRange, "first described here"))
		} else {
			l.events[name] = e
		}
	}
	if text, at := o.Text("description"); at != nil {
		if e.Description = text; text == "" {
			l.Report(source.New("MCPE123", at.Range, "description is empty"))
		}
	}
	l.readDelivery(e, o)
	e.Source = o.Choice("source", "emit", "check", "both")
	e.Replay = o.Flag("replay", true)
	l.checkRules(e)
	e.Stability = o.Choice("stability", "stable", "experimental")
	l.readDeprecated(e, n.Get("deprecated"))
	l.readMCPE(e, n.Get("mcpe"))
	if meta := n.Get("_meta"); meta != nil && l.Is(meta, source.Object, "_meta") {
		e.Meta = meta
	}
	l.readCoalesce(e)
	l.readActor(e, o)
	l.readFrom(e, n.Get("from"))
	l.readNames(e, o)
	e.Input = l.addRoot(f, e, n.Get("inputSchema"), "inputSchema")
	e.Payload = l.addRoot(f, e, n.Get("payloadSchema"), "payloadSchema")
}

// checkRules reports the rules of servers that the event breaks.
func (l *loader) checkRules(e *Event) {
	t := &wire.EventType{Name: e.Name, Delivery: e.Delivery, Checked: e.Source != "emit", NoReplay: !e.Replay}
	for _, r := range wire.EventRules {
		n := e.Node.Get(r.Key)
		if fault := r.Fault(t); fault != "" && n != nil && (r.Key != "name" || n.Kind == source.String) {
			l.Report(source.New(ruleCodes[r.Key], n.Range, "%s", fault).WithHint("%s", r.Remedy))
		}
	}
}

// ruleCodes maps the keys of rules to the codes of their diagnostics.
var ruleCodes = map[string]string{"name": "MCPE124", "delivery": "MCPE123", "replay": "MCPE123"}

func (l *loader) addRoot(f *File, e *Event, n *source.Node, part string) *source.Node {
	if n != nil {
		l.roots = append(l.roots, &root{file: f, node: n, event: e, name: e.Name + "." + part})
	}
	return n
}

func (l *loader) readDelivery(e *Event, o *source.ObjectReader) {
	list := o.Texts("delivery")
	if n := o.Node.Get("delivery"); n != nil && n.Kind == source.Array && len(n.Items) == 0 {
		l.Report(source.New("MCPE123", n.Range, "delivery is empty: nobody could receive the event").WithHint("leave it out for all modes"))
	}
	for _, n := range list {
		if l.Among(n, "a delivery mode", wire.DeliveryModes) {
			e.Delivery = append(e.Delivery, n.Text)
		}
	}
}

func (l *loader) readDeprecated(e *Event, n *source.Node) {
	if n == nil {
		return
	}
	o := l.Object(n, "deprecated", nil, []string{"replacedBy", "removeAfter"})
	if o == nil {
		return
	}
	e.Deprecated = &Deprecated{}
	if name, at := o.Text("replacedBy"); at != nil {
		l.checkName(name, at.Range, "an event")
		e.Deprecated.ReplacedBy = name
	}
	if date, at := o.Text("removeAfter"); at != nil {
		if _, err := time.Parse(time.DateOnly, date); err != nil {
			l.Report(source.New("MCPE123", at.Range, "removeAfter %q is not a date", date).WithHint("write year, month and day: 2027-03-01"))
		} else {
			e.Deprecated.RemoveAfter = date
		}
	}
}

func (l *loader) readMCPE(e *Event, n *source.Node) {
	if n == nil {
		return
	}
	o := l.Object(n, "mcpe", nil, []string{"enabled", "priority", "tags"})
	if o == nil {
		return
	}
	e.MCPE = &MCPE{Enabled: o.Flag("enabled", true), Priority: o.Choice("priority", "normal", "low", "high", "critical")}
	for _, tag := range o.Texts("tags") {
		e.MCPE.Tags = append(e.MCPE.Tags, tag.Text)
	}
}

// readNames reads the keys of an event that override generated names.
func (l *loader) readNames(e *Event, o *source.ObjectReader) {
	if name, at := o.Text("x-go-name"); at != nil && l.checkGoName(at) {
		e.GoName = name
	}
	if name, at := o.Text("x-tool-name"); at != nil {
		e.ToolName = name
		l.checkToolName(name, at.Range, "set another x-tool-name")
	}
	n := o.Node.Get("x-tool-args")
	if n == nil {
		return
	}
	if args := l.Object(n, "x-tool-args", nil, []string{"cursor", "maxEvents", "waitSeconds", "quietSeconds", "since"}); args != nil {
		e.ToolCursor = l.readToolArgument(args, "cursor")
		e.ToolMaxEvents = l.readToolArgument(args, "maxEvents")
		e.ToolWait = l.readToolArgument(args, "waitSeconds")
		e.ToolQuiet = l.readToolArgument(args, "quietSeconds")
		e.ToolSince = l.readToolArgument(args, "since")
		named := map[string]string{}
		for _, a := range []struct{ key, name string }{
			{"cursor", e.ToolCursor}, {"maxEvents", e.ToolMaxEvents}, {"waitSeconds", e.ToolWait},
			{"quietSeconds", e.ToolQuiet}, {"since", e.ToolSince},
		} {
			if other := named[a.name]; other != "" && a.name != "" {
				l.Report(source.New("MCPE123", n.Range, "%s and %s cannot both be named %s", other, a.key, strconv.Quote(a.name)))
			}
			named[a.name] = a.key
		}
	}
}

func (l *loader) readToolArgument(o *source.ObjectReader, key string) string {
	name, at := o.Text(key)
	if at != nil && name == "" {
		l.Report(source.New("MCPE124", at.Range, "the name of an argument is empty"))
	}
	return name
}

// checkGoName reports whether an x-go-name is valid. If it is not, it adds a diagnostic.
func (l *loader) checkGoName(n *source.Node) bool {
	if token.IsIdentifier(n.Text) && token.IsExported(n.Text) {
		return true
	}
	l.Report(source.New("MCPE124", n.Range, "%q is not an exported Go identifier", n.Text).
		WithHint("begin with an upper-case letter and use letters, digits and '_'"))
	return false
}
