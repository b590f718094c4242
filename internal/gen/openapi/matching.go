package openapi

import (
	"path"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// addMatching adds an event for each component schema whose name matches a pattern. It is intended for documents that
// describe payloads only as components.
func (r *reader) addMatching(patterns []string) {
	schemas := r.doc.Get("components").MembersAt("schemas")
	if len(schemas) == 0 && len(patterns) > 0 {
		r.found = append(r.found, source.New("MCPE511", r.doc.Range, "the document has no schemas below /components/schemas for --components").
			WithHint("leave out --components; webhooks and callbacks are imported without it"))
		return
	}
	for _, pattern := range patterns {
		if !slices.ContainsFunc(schemas, func(m source.Member) bool { return matchesAny(m.Key, []string{pattern}) }) {
			r.found = append(r.found, source.New("MCPE511", r.doc.Range, "no schema of the components matches %q", pattern).
				WithHint("the names of %d schemas are below /components/schemas, such as %s", len(schemas), shown(schemas)))
		}
	}
	for _, m := range schemas {
		if m.Value.Get("x-stripeEvent") != nil || !matchesAny(m.Key, patterns) {
			continue
		}
		payload := importer.Reference("#" + wire.Pointer("components", "schemas", m.Key))
		if err := r.addEvent(m.Key, m.KeyRange, importer.Description(texts, m.Value), payload, m.Value.Get("deprecated").True()); err != nil {
			r.leaveOut(m.KeyRange, "event "+m.Key, err.Error())
		}
	}
}

// matchesAny reports whether a name matches any of the patterns. It ignores invalid patterns.
func matchesAny(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok })
}

func shown(schemas []source.Member) string {
	var names []string
	for _, m := range schemas[:min(3, len(schemas))] {
		names = append(names, m.Key)
	}
	return strings.Join(names, ", ")
}
