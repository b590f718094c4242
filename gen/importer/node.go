package importer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

func object() *source.Node       { return &source.Node{Kind: source.Object} }
func text(s string) *source.Node { return &source.Node{Kind: source.String, Text: s} }

func set(n *source.Node, key string, v *source.Node) {
	n.Members = append(n.Members, source.Member{Key: key, Value: v})
}

// known keeps the delivery modes that an event file can restrict a type to, in the protocol's order.
func known(offered []string) []string {
	var modes []string
	for _, m := range []string{wire.ModePoll, wire.ModePush, wire.ModeWebhook} {
		if slices.Contains(offered, m) {
			modes = append(modes, m)
		}
	}
	return modes
}

func modeList(modes []string) *source.Node {
	list := &source.Node{Kind: source.Array}
	for _, m := range modes {
		list.Items = append(list.Items, text(m))
	}
	return list
}

func deprecation(d schema.Deprecated) *source.Node {
	n := object()
	if d.ReplacedBy != "" {
		set(n, "replacedBy", text(d.ReplacedBy))
	}
	if d.RemoveAfter != "" {
		set(n, "removeAfter", text(d.RemoveAfter))
	}
	return n
}

// metaOf is the descriptor's _meta without the fingerprint, which the generator computes; nil when
// nothing is left.
func metaOf(meta map[string]any) (*source.Node, error) {
	rest := map[string]any{}
	for k, v := range meta {
		if k != wire.MetaFingerprint {
			rest[k] = v
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	n, found := source.Parse("_meta", raw)
	if source.HasErrors(found) {
		return nil, fmt.Errorf("%s", found[0].Message)
	}
	return n, nil
}

// match adds an x-match to the argument that the rule names, where its schema can hold one.
func match(event *source.Node, rule schema.MatchRule) {
	argument := event.Get("inputSchema").Get("properties").Get(rule.Argument)
	if argument == nil || argument.Kind != source.Object {
		return
	}
	if rule.Op == "" || rule.Op == "equal" {
		set(argument, "x-match", text(rule.Path))
		return
	}
	x := object()
	set(x, "path", text(rule.Path))
	set(x, "op", text(rule.Op))
	set(argument, "x-match", x)
}

// file writes the event file.
func (w *writer) file(drafts []*draft) []byte {
	var p printer
	p.WriteString("# Event types")
	if w.o.From != "" {
		p.WriteString(" of " + oneLine(w.o.From))
	}
	p.WriteString(", written by mcpe-gen import. It is yours to edit.\n")
	p.WriteString("# The schemas are as published, with shared definitions in $defs; a change of them shows as drift.\n")
	if len(w.left) > 0 {
		p.WriteString("#\n# Left out:\n")
		for _, line := range w.left {
			p.WriteString("#   " + oneLine(line) + "\n")
		}
	}
	p.WriteString("version: 1\n")
	if w.o.Package != "" {
		p.WriteString("package: " + scalarText(w.o.Package, false) + "\n")
	}
	p.WriteString("\nevents:\n")
	for i, d := range drafts {
		if i > 0 {
			p.WriteByte('\n')
		}
		p.block(&source.Node{Kind: source.Array, Items: []*source.Node{d.node}}, 2)
	}
	return []byte(p.String())
}

// oneLine keeps text of others from leaving its comment.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !shown(r) {
			return ' '
		}
		return r
	}, s)
}
