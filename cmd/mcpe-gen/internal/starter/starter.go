// Package starter holds event types to start from, for `mcpe-gen init --from SERVICE`: those of GitHub are made of
// its published schemas (package provider), the others are written by hand, in data/.
//
// Start with [New].
package starter

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// Services are the words of --from.
var Services = []string{"github", "stripe", "slack", "gitlab", "standard-webhooks", "hmac", "cloudevents"}

// A Starter is an event file and what a program needs to know of it.
type Starter struct {
	Provider provider.Provider
	// Package is the Go package of the event types, and the name of the event file.
	Package string
	// Content is the event file.
	Content []byte
	Events  []Event
}

// An Event is one event type of a starter.
type Event struct {
	// Name is the event type's, GoName what Go names of it begin with, Event what the service calls it.
	Name, GoName, Event string
}

// An UnknownError tells that a service has no event type of a name to start from.
type UnknownError struct {
	Service, Event string
	// Names are those that it has, sorted.
	Names []string
}

// Error names what is near, or all that there is when that is little.
func (e *UnknownError) Error() string {
	text := fmt.Sprintf("%s has no event type %q to start from", e.Service, e.Event)
	if near := source.Suggest(e.Event, e.Names); near != "" {
		return text + fmt.Sprintf("; did you mean %q?", near)
	}
	if len(e.Names) <= 70 {
		return text + "; it has " + strings.Join(e.Names, ", ")
	}
	return text
}

// defaults are the event types that a service starts with where none are named: all of those by hand.
var defaults = map[string][]string{"github": {"push", "issues", "pull_request"}}

//go:embed data
var data embed.FS

// Names are the event types that a service has to start from, sorted. GitHub's may also be narrowed to an action,
// as in issues.opened.
func Names(service string) []string {
	if p, _ := provider.Lookup(service); p.Known() {
		return p.Events()
	}
	var names []string
	entries, _ := data.ReadDir(path.Join("data", service))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Defaults are the event types that a service starts with where none are named.
func Defaults(service string) []string {
	if names := defaults[service]; names != nil {
		return names
	}
	return Names(service)
}

// New makes the event file of a service with the named event types in the order given, or with its defaults when
// none is. The error is an [UnknownError].
func New(service string, events []string) (*Starter, error) {
	p, ok := provider.Lookup(service)
	if !ok || !slices.Contains(Services, service) {
		return nil, fmt.Errorf("%q is not one of %s", service, strings.Join(Services, ", "))
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

// eventText is one element of events.
func eventText(p provider.Provider, name string) (string, error) {
	if p.Known() {
		event, action, _ := strings.Cut(name, ".")
		body, ok := p.Body(event, action)
		if !ok || name != event && action == "" {
			names := p.Events()
			if slices.Contains(names, event) {
				for _, a := range p.ActionsOf(event) {
					names = append(names, event+"."+a)
				}
			}
			return "", &UnknownError{p.Name, name, names}
		}
		return project(p, event, action, body), nil
	}
	if !slices.Contains(Names(p.Name), name) {
		return "", &UnknownError{p.Name, name, Names(p.Name)}
	}
	text, err := data.ReadFile(path.Join("data", p.Name, name+".yaml"))
	return string(text), err
}
