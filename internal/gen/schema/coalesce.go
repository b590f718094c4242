package schema

import (
	"cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const coalesceKey = "x-coalesce"

// readCoalesce reads the x-coalesce of an event. checkCoalesce later checks it against the payload schema.
func (l *loader) readCoalesce(e *Event) {
	n := e.Node.Get(coalesceKey)
	if n == nil || e.File.isFlawed(n) {
		return
	}
	c := &wire.Coalesce{Key: n.Texts("key"), QuietSeconds: n.Integer("quietSeconds", 0), MaxSeconds: n.Integer("maxSeconds", 0), Keep: cmp.Or(n.Word("keep"), wire.KeepLatest)}
	if err := c.Check(); err != nil {
		l.Report(source.New("MCPE160", n.Get("maxSeconds").Range, "x-coalesce: %v", err)) // its form is right
		return
	}
	e.Coalesce = c
}

// checkCoalesce checks the x-coalesce key of an event against its payload schema.
func (l *loader) checkCoalesce(e *Event) {
	for _, at := range e.Node.Get(coalesceKey).Strings("key") {
		tokens, ok := wire.SplitPointer(at.Text)
		if !ok || len(tokens) == 0 {
			continue // already reported
		}
		here, end := l.set.schemasAtPath(e.Payload, tokens)
		if end != nil {
			l.Report(source.New("MCPE161", at.Range, "x-coalesce key %q: %s", at.Text, end.message("the payload")).
				WithHint("%s", end.suggestion(l.set, "describe it under properties of the payloadSchema")))
			continue
		}
		if !l.isOpen(e, "x-coalesce key", at.Text, at.Range) {
			continue
		}
		if k := l.set.kindsOfFirst(here) &^ kNull; k == 0 || k&^(kBoolean|kNumber|anyString) != 0 {
			l.Report(source.New("MCPE161", at.Range, "x-coalesce key %q must be a string, a number or a boolean, not %s", at.Text, k).
				WithRelated(here[0].Range, "the place in the payload"))
		}
	}
}

// PublishedMeta returns the _meta of the descriptor as JSON, without the fingerprint. It consists of the event's _meta,
// its x-coalesce as [wire.MetaCoalesce] and its x-actor as [wire.MetaActor]. If all three are absent, it returns nil.
func (e *Event) PublishedMeta() []byte {
	own := &source.Node{Kind: source.Object}
	if e.Meta != nil {
		own.Members = append(own.Members, e.Meta.Members...)
	}
	if e.Coalesce != nil {
		said := yaml.Object()
		yaml.Set(said, "key", yaml.Texts(e.Coalesce.Key))
		yaml.Set(said, "quietSeconds", yaml.Number(e.Coalesce.QuietSeconds))
		yaml.Set(said, "maxSeconds", yaml.Number(e.Coalesce.MaxSeconds))
		yaml.Set(said, "keep", yaml.Text(e.Coalesce.Keep))
		yaml.Set(own, wire.MetaCoalesce, said)
	}
	if e.Actor != "" {
		yaml.Set(own, wire.MetaActor, yaml.Text(e.Actor))
	}
	if len(own.Members) == 0 {
		return nil
	}
	return own.JSON()
}
