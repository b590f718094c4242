// Package provider knows the services whose webhooks an event type may come from (`from:` in event files): what
// they are called, what they say about a delivery, and for GitHub what its bodies look like.
//
// Start with [Lookup]. The schemas of GitHub's bodies are those of npm's @octokit/webhooks-schemas, see
// github/README.md; `make providers` fetches them again.
//
// The package makes no promise of compatibility.
package provider

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// A Provider is one service, or one way of signing that many services use.
type Provider struct {
	// Name is the word of event files, Title what people call it, GoName what Go names begin with.
	Name, Title, GoName string
	// Actions tells that deliveries have an action beside the event.
	Actions bool
	// NeedsID tells that event files have to say where the id of a delivery is.
	NeedsID bool
	// Eventless tells that a `from:` may leave the event out.
	Eventless bool
}

var all = []Provider{
	{Name: "github", Title: "GitHub", GoName: "GitHub", Actions: true},
	{Name: "stripe", Title: "Stripe", GoName: "Stripe"},
	{Name: "slack", Title: "Slack", GoName: "Slack", Actions: true},
	{Name: "gitlab", Title: "GitLab", GoName: "GitLab", Actions: true},
	{Name: "standard-webhooks", Title: "Standard Webhooks", GoName: "StandardWebhooks"},
	{Name: "hmac", Title: "signed webhooks", GoName: "HMAC", Actions: true, NeedsID: true, Eventless: true},
	{Name: "cloudevents", Title: "CloudEvents", GoName: "CloudEvents"},
	{Name: "sns", Title: "Amazon SNS", GoName: "SNS"},
	{Name: "discord", Title: "Discord", GoName: "Discord", Actions: true},
	{Name: "custom", Title: "another service", GoName: "Custom", Actions: true},
}

// Names are the words of all providers.
func Names() []string {
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

// Lookup returns the provider of a name.
func Lookup(name string) (Provider, bool) {
	for _, p := range all {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}

// Known reports whether the schemas of its bodies are known, all of them.
func (p Provider) Known() bool { return p.Name == "github" }

//go:embed github/webhooks.schema.json
var githubText []byte

// github are the definitions of GitHub's bodies.
var github = sync.OnceValue(func() *source.Node {
	n, found := source.Parse("webhooks.schema.json", githubText)
	if source.HasErrors(found) {
		panic("gen/provider: " + found[0].String()) // it is embedded and tested
	}
	return n.Get("definitions")
})

// Definitions of whole events, and what stands between the event and the action of the others.
const (
	union  = "_event"
	single = "$event"
	action = "$"
)

// Events are the names of the events whose bodies are known, sorted.
func (p Provider) Events() []string {
	if !p.Known() {
		return nil
	}
	var names []string
	for _, m := range github().Members {
		for _, suffix := range []string{union, single} {
			if name, ok := strings.CutSuffix(m.Key, suffix); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// ActionsOf are the actions of a known event, sorted; none where it has none.
func (p Provider) ActionsOf(event string) []string {
	var names []string
	if p.Known() {
		for _, m := range github().Members {
			if before, after, ok := strings.Cut(m.Key, action); ok && before == event && action+after != single {
				names = append(names, after)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Body returns the JSON Schema (draft-07) of the bodies of an event, of one of its actions when it is given; false
// when that is not known. All that it refers to is in its definitions.
func (p Provider) Body(event, act string) (*source.Node, bool) {
	if !p.Known() {
		return nil, false
	}
	candidates := []string{event + union, event + single}
	if act != "" {
		candidates = []string{event + action + act}
	}
	for _, name := range candidates {
		if github().Get(name) != nil && (act == "" || action+act != single) {
			return closed(name), true
		}
	}
	return nil, false
}

// closed is the schema of a definition with the definitions that it reaches.
func closed(name string) *source.Node {
	definitions := &source.Node{Kind: source.Object}
	seen := map[string]bool{}
	var reach func(n *source.Node)
	reach = func(n *source.Node) {
		if ref := n.Get("$ref"); ref != nil {
			if to, ok := strings.CutPrefix(ref.Text, "#/definitions/"); ok && !seen[to] {
				seen[to] = true
				if d := github().Get(to); d != nil {
					definitions.Members = append(definitions.Members, source.Member{Key: to, Value: d})
					reach(d)
				}
			}
		}
		for _, item := range n.Items {
			reach(item)
		}
		for _, m := range n.Members {
			reach(m.Value)
		}
	}
	text := func(s string) *source.Node { return &source.Node{Kind: source.String, Text: s} }
	ref := source.Member{Key: "$ref", Value: text("#/definitions/" + name)}
	top := &source.Node{Kind: source.Object, Members: []source.Member{ref}}
	reach(top)
	return &source.Node{Kind: source.Object, Members: []source.Member{
		{Key: "$schema", Value: text("http://json-schema.org/draft-07/schema#")},
		{Key: "type", Value: text("object")},
		{Key: "allOf", Value: &source.Node{Kind: source.Array, Items: []*source.Node{top}}},
		{Key: "definitions", Value: definitions},
	}}
}
