package schema

import (
	"cmp"
	"errors"
	"fmt"
	"go/token"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
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
	f.faults = eventFileForm().Check(f.Root)
	l.Report(f.faults...)
	f.Package, f.dialect = f.Root.Word("package"), dialectNamed(f.Root.Word("dialect"))
	if s := f.Root.Get("schemas"); s != nil && s.Kind == source.Object {
		for _, m := range s.Members {
			l.checkName(m.Key, m.KeyRange, "a schema")
			e := &Entry{Name: m.Key, File: f, Node: m.Value, NameRange: m.KeyRange}
			f.Schemas = append(f.Schemas, e)
			f.named[m.Key] = e
			l.addEntry(&root{file: f, node: m.Value, entry: e, name: m.Key})
		}
	}
	for _, n := range f.Root.ItemsOf("events", source.Object) {
		l.readEvent(f, n)
	}
	for _, n := range f.Root.ItemsOf("tasks", source.Object) {
		l.readTask(f, n)
	}
	if m := f.Root.Member("conversation"); m != nil && m.Value.Kind == source.Object {
		l.readConversation(f, m)
	}
}

// isFlawed reports whether the form of a value in the file has a fault.
func (f *File) isFlawed(n *source.Node) bool {
	return slices.ContainsFunc(f.faults, func(d source.Diagnostic) bool {
		return d.Range.Start.Compare(n.Range.Start) >= 0 && d.Range.Start.Compare(n.Range.End) <= 0
	})
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
	e := &Event{File: f, Node: n, Name: n.Word("name"), NameRange: n.Range, Description: n.Word("description"), Delivery: n.Texts("delivery"),
		Source: cmp.Or(n.Word("source"), "emit"), Replay: n.Flag("replay", true), Stability: cmp.Or(n.Word("stability"), "stable"),
		Meta: n.Get("_meta"), GoName: n.Word("x-go-name"), Tool: toolschema.Names{Name: n.Word("x-tool-name")}}
	f.Events = append(f.Events, e)
	if at := n.Get("name"); at != nil && at.Kind == source.String {
		e.NameRange = at.Range
		if l.events == nil {
			l.events = make(map[string]*Event)
		}
		if first := l.events[e.Name]; first != nil {
			l.Report(source.New("MCPE125", at.Range, "event %q is described twice", e.Name).WithRelated(first.NameRange, "first described here"))
		} else {
			l.events[e.Name] = e
		}
	}
	l.checkRules(e)
	if d := n.Get("deprecated"); d != nil {
		e.Deprecated = &Deprecated{ReplacedBy: d.Word("replacedBy"), RemoveAfter: d.Word("removeAfter")}
		if at := d.Get("replacedBy"); at != nil && at.Kind == source.String {
			l.checkName(at.Text, at.Range, "an event")
		}
	}
	if m := n.Get("mcpe"); m != nil {
		e.MCPE = &MCPE{Enabled: m.Flag("enabled", true), Priority: cmp.Or(m.Word("priority"), "normal"), Tags: m.Texts("tags")}
	}
	l.readCoalesce(e)
	l.readActor(e)
	l.readFrom(e, n.Get("from"))
	l.readToolArguments(e, n.Get("x-tool-args"))
	e.Input = l.addRoot(f, e, n.Get("inputSchema"), "inputSchema")
	e.Payload = l.addRoot(f, e, n.Get("payloadSchema"), "payloadSchema")
}

// checkRules reports the rules of servers that the event breaks. A fault that an option of the registration removes is a
// warning.
func (l *loader) checkRules(e *Event) {
	t := wire.EventType{Name: e.Name, Delivery: e.Delivery, Checked: e.Source != "emit", NoReplay: !e.Replay}
	held := t
	held.PollsHeld = true
	for _, r := range wire.EventRules {
		n := e.Node.Get(r.Key)
		if r.Broken(&t) && n != nil && !e.File.isFlawed(n) {
			d := source.New(ruleCodes[r.Key], n.Range, "%s", r.Fault).WithHint("%s", r.Remedy)
			if !r.Broken(&held) {
				d.Severity = source.Warning
			}
			l.Report(d)
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

// readToolArguments reads the names of the read tool's arguments, which must differ.
func (l *loader) readToolArguments(e *Event, n *source.Node) {
	named := map[string]string{}
	for _, a := range []struct {
		key  string
		into *string
	}{{"cursor", &e.Tool.Cursor}, {"maxEvents", &e.Tool.MaxEvents}, {"waitSeconds", &e.Tool.Wait}, {"quietSeconds", &e.Tool.Quiet}, {"since", &e.Tool.Since}} {
		*a.into = n.Word(a.key)
		if other := named[*a.into]; other != "" && *a.into != "" {
			l.Report(source.New("MCPE123", n.Range, "%s and %s cannot both be named %q", other, a.key, *a.into))
		}
		named[*a.into] = a.key
	}
}
