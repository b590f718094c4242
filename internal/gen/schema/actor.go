package schema

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const actorKey = "x-actor"

// combiningKeywords lists the inputSchema keywords that could reject or constrain the added argument.
var combiningKeywords = []string{"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "const", "enum", "patternProperties", "propertyNames",
	"minProperties", "maxProperties", "dependentSchemas", "dependencies"}

// readActor reads the x-actor of an event. It adds an argument that excludes events caused by certain actors.
// checkActor later checks the x-actor against the payload schema.
func (l *loader) readActor(e *Event) {
	path, n := e.Node.Word(actorKey), e.Node.Get(actorKey)
	if n == nil || e.File.isFlawed(n) {
		return
	}
	input := e.Node.Get("inputSchema")
	if input == nil || input.Kind != source.Object {
		return // already reported
	}
	for _, key := range combiningKeywords {
		if m := input.Member(key); m != nil {
			l.Report(source.New("MCPE163", n.Range, "x-actor adds the argument %q to the inputSchema, and that has %s", wire.NotBy, key).
				WithRelated(m.KeyRange, "here").WithHint("describe the arguments by type, properties and required"))
			return
		}
	}
	properties := input.Get("properties")
	switch {
	case properties == nil:
		properties = &source.Node{Kind: source.Object, Range: n.Range}
		input.Add("properties", n.Range, properties)
	case properties.Kind != source.Object:
		return
	}
	if m := properties.Member(wire.NotBy); m != nil {
		l.Report(source.New("MCPE163", n.Range, "x-actor adds the argument %q, but the inputSchema already has an argument with that name", wire.NotBy).
			WithRelated(m.KeyRange, "here").WithHint("give that argument another name"))
		return
	}
	argument := NotBy(path).Clone() // Clone returns a node with linked parents
	argument.Move(n.Range)
	properties.Add(wire.NotBy, n.Range, argument)
	e.Actor, e.notBy = path, argument.Get("x-match")
}

// NotBy returns the schema of the argument that x-actor adds, including its x-match.
func NotBy(path string) *source.Node {
	match := yaml.Object()
	yaml.Set(match, "path", yaml.Text(path))
	yaml.Set(match, "op", yaml.Text("in"))
	yaml.Set(match, "not", yaml.Flag(true))
	items := yaml.Object()
	yaml.Set(items, "type", yaml.Text("string"))
	yaml.Set(items, "maxLength", yaml.Number(maxActor))
	n := yaml.Object()
	yaml.Set(n, "description", yaml.Text("Only events that none of these actors caused: name yourself to leave out your own actions. An event's actor is its "+path+"."))
	yaml.Set(n, "type", yaml.Text("array"))
	yaml.Set(n, "items", items)
	yaml.Set(n, "maxItems", yaml.Number(maxActors))
	yaml.Set(n, "x-match", match)
	return n
}

// Added reports whether n is the schema of the argument that x-actor added to the event.
func (e *Event) Added(n *source.Node) bool { return e.notBy != nil && e.notBy.Parent == n }

// Limits of the argument that x-actor adds: the number of actors, and the length of an actor in characters.
const (
	maxActors = 64
	maxActor  = 256
)

// checkActor checks the x-actor of an event against its payload schema. rule is the x-match of the added argument.
func (l *loader) checkActor(e *Event, rule MatchRule) {
	to, end := l.set.targetAt(e.Payload, e.Actor)
	if end != nil {
		l.Report(source.New("MCPE164", rule.Range, "x-actor %q: %s, so nobody would ever be the actor", e.Actor, end.message("the payload")).
			WithHint("%s", end.suggestion(l.set, describePayload)))
		return
	}
	if k := to.kinds &^ kNull; k == 0 || k&^anyString != 0 {
		l.Report(source.New("MCPE164", rule.Range, "x-actor %q must be a string, not %s", e.Actor, k).
			WithRelated(to.here[0].Range, "the place in the payload"))
		return
	}
	if l.isOpen(e, "x-actor", e.Actor, rule.Range) {
		e.Match = append(e.Match, rule)
	}
}
