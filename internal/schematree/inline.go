package schematree

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// MaxInlined is the maximum size in bytes of a schema in which [Inline] replaces all references.
const MaxInlined = 64 << 10

// maxChain is the maximum length of a chain of references.
const maxChain = 100

// Inline returns a compact schema in which the targets of references stand in place of the references. It keeps
// references to a schema that contains itself, and the definitions that these need; at the root it replaces these as
// well. Inline replaces only a reference at the root if the result would exceed 64 KiB or the schema has identifiers. It
// removes discriminators, whose mappings refer to definitions.
func Inline(schema json.RawMessage) json.RawMessage {
	root := ParseMembers(schema)
	if !mayRefer(schema) || root == nil {
		return schema
	}
	var dialect string
	_ = json.Unmarshal(root.Get("$schema"), &dialect) // absent in most schemas
	in := inliner{doc: schema, refAlone: DialectOf(dialect) == Draft07, targets: map[string]*target{}}
	root = in.follow(root, true)
	if Movable(schema) {
		if out := in.inline(root); len(out) <= MaxInlined {
			return out
		}
	}
	return root.JSON()
}

// An inliner replaces the references of a document.
type inliner struct {
	doc      json.RawMessage
	refAlone bool               // the siblings of a $ref are ignored
	targets  map[string]*target // by reference
}

// A target is what a reference refers to. refs are the references in it. recursive is set if it contains the reference,
// also by way of other references.
type target struct {
	schema    json.RawMessage // nil if the reference does not resolve
	refs      []string
	recursive bool
}

// inline replaces the references below the root. A result of more than MaxInlined bytes is incomplete.
func (in *inliner) inline(root Members) json.RawMessage {
	body := root
	for _, keyword := range DefinitionKeywords {
		body = body.Without(keyword)
	}
	out := in.appendSchema(nil, body.JSON())
	for _, keyword := range DefinitionKeywords {
		definitions, kept := ParseMembers(root.Get(keyword)), Members(nil)
		for used := referencesIn(out); len(used) > 0; used = used[1:] {
			_, fragment, _ := Cut(used[0])
			path, _ := wire.SplitPointer(fragment)
			if len(path) < 2 || path[0] != keyword || definitions.Get(path[1]) == nil || kept.Get(path[1]) != nil {
				continue
			}
			kept = kept.With(path[1], in.appendSchema(nil, definitions.Get(path[1])))
			used = append(used, referencesIn(kept.Get(path[1]))...)
		}
		if kept != nil {
			out = ParseMembers(out).With(keyword, kept.JSON()).JSON()
		}
	}
	return out
}

// referencesIn returns the references in a schema, in text order.
func referencesIn(schema json.RawMessage) (all []string) {
	Copy(schema, func(ref string) string {
		all = append(all, ref)
		return ref
	})
	return all
}

// appendSchema appends a schema, or a list of schemas, with its references replaced. It stops after MaxInlined bytes.
func (in *inliner) appendSchema(b []byte, schema json.RawMessage) []byte {
	var list []json.RawMessage
	switch {
	case len(b) > MaxInlined:
		return b
	case schema[0] == '[' && json.Unmarshal(schema, &list) == nil:
		b = append(b, '[')
		for i, element := range list {
			if i > 0 {
				b = append(b, ',')
			}
			b = in.appendSchema(b, element)
		}
		return append(b, ']')
	case schema[0] != '{':
		return append(b, schema...)
	}
	return in.follow(ParseMembers(schema), false).Without("discriminator").append(b, func(b []byte, p Property) []byte {
		switch k := Any.keywords[p.Name]; {
		case k.Holds == Nothing:
			return append(b, p.Value...)
		case k.Holds == Map || k.Holds == SchemasOrNames:
			return ParseMembers(p.Value).append(b, func(b []byte, p Property) []byte { return in.appendSchema(b, p.Value) })
		}
		return in.appendSchema(b, p.Value)
	})
}

// follow replaces the reference of a schema until none is left. Unless recursive is set, it keeps references to schemas
// that contain themselves.
func (in *inliner) follow(schema Members, recursive bool) Members {
	for range maxChain {
		var ref string
		if json.Unmarshal(schema.Get("$ref"), &ref) != nil {
			break
		}
		to := in.target(ref)
		if len(to.schema) == 0 || to.schema[0] != '{' || to.recursive && !recursive {
			break
		}
		schema = in.merge(to.schema, schema.Without("$ref"))
	}
	return schema
}

// target returns the target of a reference such as #/$defs/Name.
func (in *inliner) target(ref string) *target {
	if known := in.targets[ref]; known != nil {
		return known
	}
	to := &target{}
	in.targets[ref] = to
	document, fragment, ok := Cut(ref)
	if tokens, isPointer := wire.SplitPointer(fragment); ok && isPointer && document == "" {
		to.schema = in.doc
		for _, t := range tokens {
			to.schema = ParseMembers(to.schema).Get(t)
		}
	}
	to.refs = referencesIn(to.schema)
	seen := map[string]bool{}
	for open := slices.Clone(to.refs); len(open) > 0 && !to.recursive; open = open[1:] {
		if inner := open[0]; !seen[inner] {
			seen[inner], to.recursive = true, inner == ref
			open = append(open, in.target(inner).refs...)
		}
	}
	return to
}

// merge returns a schema that means the same as a reference to target with siblings. Annotations of the siblings replace
// those of the target.
func (in *inliner) merge(target json.RawMessage, siblings Members) Members {
	merged := ParseMembers(target)
	for _, p := range siblings {
		k := Any.keywords[p.Name]
		switch own := merged.Get(p.Name); {
		case k.Role == Annotates || strings.HasPrefix(p.Name, "x-") || own == nil && k.Holds == Nothing && !in.refAlone || bytes.Equal(own, p.Value):
			merged = merged.With(p.Name, p.Value)
		case !in.refAlone:
			all := [][]byte{target}
			if own := siblings.Get("allOf"); own != nil {
				all = append(all, own[1:len(own)-1])
			}
			return siblings.With("allOf", slices.Concat([]byte("["), bytes.Join(all, []byte(",")), []byte("]")))
		}
	}
	return merged
}
