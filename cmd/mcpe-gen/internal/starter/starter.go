// Package starter provides initial event types for `mcpe-gen init --from SERVICE`. They are in data/. GitHub's are
// generated from its published schemas (package provider), and the others are handwritten.
//
// Start with [New].
package starter

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

// Services contains the valid values of --from, which are the providers with initial event types.
var Services = slices.DeleteFunc(provider.Names(), func(service string) bool { return len(Names(service)) == 0 })

// A Starter is an event file together with the properties that a program needs to use it.
type Starter struct {
	Provider provider.Provider
	// Package is the Go package of the event types and the base name of the event file.
	Package string
	// Content is the event file.
	Content []byte
	Events  []Event
}

// An Event is an event type of a starter.
type Event struct {
	// Name is the name of the event type. GoName is the prefix of its Go names. Event is the service's name for it.
	Name, GoName, Event string
}

// An UnknownError reports that a service has no initial event type with the given name.
type UnknownError struct {
	Service, Event string
	// Names are the service's event types, sorted.
	Names []string
}

// Error suggests similar names, or all names if there are only a few.
func (e *UnknownError) Error() string {
	text := fmt.Sprintf("%s has no event type %q to start from", e.Service, e.Event)
	if near := suggest.Nearest(e.Event, e.Names); near != "" {
		return text + fmt.Sprintf("; did you mean %q?", near)
	}
	if len(e.Names) <= 70 {
		return text + "; it has " + strings.Join(e.Names, ", ")
	}
	return text
}

// defaultEvents contains the event types that are used if none are named. Services that are not listed use all of
// theirs.
var defaultEvents = map[string][]string{"github": {"push", "issues", "pull_request"}}

// dataFiles contains a file for each event of a service. A GitHub file contains the event type of the event, followed
// by the event types of its actions.
//
//go:embed data
var dataFiles embed.FS

// Names returns the initial event types of a service, sorted. GitHub's event types can also be restricted to an action,
// as in issues.opened.
func Names(service string) []string {
	var names []string
	entries, _ := dataFiles.ReadDir(path.Join("data", service))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Defaults returns the event types of a service that are used if none are named.
func Defaults(service string) []string {
	if names := defaultEvents[service]; names != nil {
		return names
	}
	return Names(service)
}

// New returns the event file of a service with the named event types in the given order. If events is empty, it uses
// the defaults of the service. The error for an unknown event type is an [UnknownError].
func New(service string, events []string) (*Starter, error) {
	p, _ := provider.Lookup(service)
	if !slices.Contains(Services, service) {
		return nil, fmt.Errorf("init has event types of %s; describe those of another service in an event file (docs/ingress.md)", strings.Join(Services, ", "))
	}
	if len(events) == 0 {
		events = Defaults(service)
	}
	s := &Starter{Provider: p, Package: strings.ReplaceAll(service, "-", "")}
	if len(s.Package) > 8 || service == "hmac" {
		s.Package = "hooks"
	}
	var b strings.Builder
	b.WriteString("# yaml-language-server: $schema=./mcpe-events.schema.json\n")
	if p.Known() {
		b.WriteString("# Made of " + p.Title + "'s own schemas (npm @octokit/webhooks-schemas, MIT): the members that say what " +
			"happened and where.\n")
	} else {
		b.WriteString("# Written by hand after the service's documentation: minimal, add what you need.\n")
	}
	fmt.Fprintf(&b, "version: 1\npackage: %s\nevents:\n", s.Package)
	taken := map[string]bool{}
	for _, name := range events {
		if taken[name] {
			continue
		}
		taken[name] = true
		text, err := eventText(p, name)
		if err != nil {
			return nil, err
		}
		b.WriteString(text)
		e := Event{Name: name, GoName: ir.GoName(name), Event: name}
		if p.Known() {
			e.Event, _, _ = strings.Cut(name, ".")
		}
		s.Events = append(s.Events, e)
	}
	s.Content = []byte(b.String())
	return s, nil
}

// eventText returns the named event type as an element of events in YAML.
func eventText(p provider.Provider, name string) (string, error) {
	names, event := Names(p.Name), name
	if p.Known() {
		event, _, _ = strings.Cut(name, ".")
		for _, a := range p.ActionsOf(event) {
			names = append(names, event+"."+a)
		}
	}
	if !slices.Contains(names, name) {
		return "", &UnknownError{p.Name, name, names}
	}
	text, err := dataFiles.ReadFile(path.Join("data", p.Name, event+".yaml"))
	if err != nil {
		return "", err
	}
	const begin = "  - name: "
	_, after, _ := strings.Cut(string(text), begin+name+"\n")
	element, _, _ := strings.Cut(after, begin)
	return begin + name + "\n" + element, nil
}
