// Package provider describes the services that `from:` supports. It contains their names, the properties of their
// deliveries, and the bodies of GitHub's webhooks.
//
// Start with [Lookup]. The schemas of GitHub's webhook bodies are from the npm package @octokit/webhooks-schemas. See
// github/README.md. Run `make providers` to update them.
package provider

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// A Provider is a service, or a signature scheme that many services use.
type Provider struct {
	// Name is the name in event files. Title is the display name. GoName is the prefix of Go identifiers.
	Name, Title, GoName string
	// Actions reports whether deliveries have an action in addition to the event.
	Actions bool
	// NeedsID reports whether event files must declare the location of the delivery ID.
	NeedsID bool
	// Eventless reports whether a `from:` may omit the event.
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

// Names returns the names of all providers.
func Names() []string {
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

// Lookup returns the provider with the given name.
func Lookup(name string) (Provider, bool) {
	for _, p := range all {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}

// Known reports whether the schemas of all webhook bodies are known.
func (p Provider) Known() bool { return p.Name == "github" }

// githubText is the schema of GitHub's webhook bodies. It is compressed, because it is the largest file that mcpe-gen
// embeds.
//
//go:embed github/webhooks.schema.json.gz
var githubText []byte

// github returns the definitions of GitHub's webhook bodies. It panics if the embedded file is corrupt.
var github = sync.OnceValue(func() *source.Node {
	text, err := GitHubSchema()
	if err != nil {
		panic("internal/gen/provider: " + err.Error())
	}
	n, found := source.Parse("webhooks.schema.json", text)
	if source.HasErrors(found) {
		panic("internal/gen/provider: " + found[0].String())
	}
	return n.Get("definitions")
})

// GitHubSchema returns the npm package's JSON Schema of GitHub's webhook bodies.
func GitHubSchema() ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(githubText))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Suffixes of definitions for all actions of an event, and the separator between the event and the action in other
// names.
const (
	union  = "_event"
	single = "$event"
	action = "$"
)

// Events returns the sorted names of the events with known bodies.
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

// ActionsOf returns the sorted actions of a known event, or nil if it has no actions.
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

// Body returns the JSON Schema (draft-07) of an event's bodies. If act is set, it returns the schema for that action.
// The schema includes all referenced definitions. It returns false if the body is unknown.
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
			return selfContained(name), true
		}
	}
	return nil, false
}

// selfContained returns the schema of a definition with all definitions reachable from it.
func selfContained(name string) *source.Node {
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
		schematree.Each(schematree.Draft07, n, func(_, _ string, inner *source.Node) { reach(inner) })
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
