package ir

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// annotating are the keywords that say nothing about which values are valid or which type they have.
var annotating = map[string]bool{
	"title": true, "description": true, "$comment": true, "examples": true, "default": true, "deprecated": true,
	"readOnly": true, "writeOnly": true, "$schema": true, "$id": true, "$anchor": true, "$defs": true, "definitions": true,
	"x-go-name": true, "x-match": true, "$vocabulary": true, "nullable": true,
}

// narrowing are the keywords that only narrow which values are valid: the Go type that follows from
// the rest holds all of them.
var narrowing = map[string]bool{
	"required": true, "minProperties": true, "maxProperties": true, "dependentRequired": true, "propertyNames": true,
	"pattern": true, "minLength": true, "maxLength": true, "minimum": true, "maximum": true, "exclusiveMinimum": true,
	"exclusiveMaximum": true, "multipleOf": true, "minItems": true, "maxItems": true, "uniqueItems": true,
	"contains": true, "minContains": true, "maxContains": true, "not": true, "contentMediaType": true, "contentSchema": true,
}

// narrows reports whether n, $ref and allOf aside, only narrows values whose types are of.
func narrows(n *source.Node, of kinds) bool {
	for _, m := range n.Members {
		switch {
		case annotating[m.Key] || narrowing[m.Key] || m.Key == "$ref" || m.Key == "allOf":
		case m.Key == "type" && of&^written(n) == 0:
		case m.Key == "unevaluatedProperties" && m.Value.Kind == source.Bool && !m.Value.True():
		case !schemaKeyword[m.Key]:
		default:
			return false
		}
	}
	return true
}

// schemaKeyword are the other keywords that mean something.
var schemaKeyword = map[string]bool{
	"type": true, "enum": true, "const": true, "format": true, "contentEncoding": true, "properties": true,
	"patternProperties": true, "additionalProperties": true, "unevaluatedProperties": true, "items": true, "prefixItems": true,
	"additionalItems": true, "unevaluatedItems": true, "oneOf": true, "anyOf": true, "if": true, "then": true, "else": true,
	"dependentSchemas": true, "dependencies": true, "x-go-type": true, "discriminator": true,
}

// standIn returns the one schema, of those that n is made of by $ref and allOf, whose Go type holds
// the values of n because all others only narrow it; nil when there is none. With a $ref of n itself
// it returns n.
func (b *builder) standIn(n *source.Node) *source.Node {
	var candidates, rest []*source.Node
	if n.Get("$ref") != nil {
		candidates = append(candidates, n)
		if b.set.RefAlone(n) {
			return n
		}
	}
	for _, item := range itemsOf(n.Get("allOf")) {
		if item.Kind != source.Object && item.True() {
			continue
		}
		if item.Kind != source.Object {
			return nil
		}
		if item.Get("$ref") == nil && item.Get("allOf") == nil && narrows(item, anyKind) {
			continue
		}
		candidates = append(candidates, item)
	}
	rest = append(rest, n)
	// A part with nothing but its type stands in only when no other part says more.
	if len(candidates) > 1 {
		more := slices.DeleteFunc(slices.Clone(candidates), onlyTyped)
		if len(more) == 1 {
			rest = append(rest, slices.DeleteFunc(slices.Clone(candidates), func(c *source.Node) bool { return c == more[0] })...)
			candidates = more
		}
	}
	if len(candidates) != 1 {
		return nil
	}
	of := b.allowedAlone(n, candidates[0])
	if slices.ContainsFunc(rest, func(r *source.Node) bool { return !narrows(r, of) }) {
		return nil
	}
	if c := candidates[0]; c.Get("$ref") == nil && of&kNumber == kInteger && saysNumber(append(rest, c)...) != saysNumber(c) {
		return nil // a type beside a list of integers decides about their Go type
	}
	return candidates[0]
}

// allowedAlone is what the stand-in of n allows by itself.
func (b *builder) allowedAlone(n, standIn *source.Node) kinds {
	if standIn != n {
		return b.allowed(standIn)
	}
	if t, d := b.set.Resolve(n); d == nil {
		return b.allowed(t.Node)
	}
	return anyKind
}

// onlyTyped reports whether a schema says its type and otherwise narrows.
func onlyTyped(n *source.Node) bool {
	return n.Get("$ref") == nil && n.Get("allOf") == nil && narrows(n, 0)
}

// isNull reports whether a schema allows null and nothing else.
func isNull(n *source.Node) bool {
	if n.Kind != source.Object {
		return false
	}
	if t := n.Get("type"); t != nil {
		return t.Kind == source.String && t.Text == "null"
	}
	if c := n.Get("const"); c != nil {
		return c.Kind == source.Null
	}
	e := n.Get("enum")
	return e != nil && len(e.Items) == 1 && e.Items[0].Kind == source.Null
}

func identity(nodes []*source.Node) string {
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, "%p ", n)
	}
	return b.String()
}

func listed(words []string) string { return strings.Join(words, " or ") }

func membersOf(n *source.Node) []source.Member {
	if n == nil {
		return nil
	}
	return n.Members
}

func itemsOf(n *source.Node) []*source.Node {
	if n == nil {
		return nil
	}
	return n.Items
}
