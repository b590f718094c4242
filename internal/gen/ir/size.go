package ir

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
)

// maxPublished is the size in bytes above which an event type's published schemas cause a warning. Every peer that
// lists the event types receives all schemas.
const maxPublished = 256 << 10

// checkSizes warns about very large published schemas. It reports only the event type with the largest schemas.
func (b *builder) checkSizes(all []*Event) {
	var largest *Event
	most, count := 0, 0
	for _, e := range all {
		size := sizeOf(e.InputSchema, nil) + sizeOf(e.PayloadSchema, nil)
		if size <= maxPublished {
			continue
		}
		count++
		if size > most {
			largest, most = e, size
		}
	}
	if largest == nil {
		return
	}
	who := fmt.Sprintf("%s publishes %d KB of schemas", largest.Schema.Name, most>>10)
	if count > 1 {
		who = fmt.Sprintf("%d event types publish more than %d KB of schemas each, %s the most: %d KB", count, maxPublished>>10, largest.Schema.Name, most>>10)
	}
	d := source.New("MCPE218", largest.Schema.NameRange, "%s, which every peer that lists the event types reads", who)
	if def, without := heaviestDefinition(largest.PayloadSchema); def != nil {
		kept, at := without+sizeOf(largest.InputSchema, nil), b.set.Origin(def)
		d = d.WithHint("of the definitions that the payload refers to, %s brings in most: without it there are %d KB; an override in mcpe.yaml cuts it off: {file: %s, at: %s, replace: {type: object}}",
			def.Name, kept>>10, yaml.Scalar(at.Root().Range.Start.File), yaml.Scalar(at.Pointer()))
	} else {
		d = d.WithHint("carry what a receiver needs to decide, and an ID for the rest")
	}
	b.report(d)
}

// sizeOf returns the published size of a schema in bytes. It excludes the definition without, and all definitions that
// are reachable only through it.
func sizeOf(s *published.Schema, without *published.Schema) int {
	size := len(s.Head) + len(s.Tail)
	seen := map[*published.Schema]bool{without: true}
	queue := slices.Clone(s.Refs)
	for i := 0; i < len(queue); i++ {
		if d := queue[i]; !seen[d] {
			seen[d] = true
			size += len(d.Name) + len(d.Head) + len(`"":,`)
			queue = append(queue, d.Refs...)
		}
	}
	return size
}

// heaviestDefinition returns the definition that contributes most to the schema's size, and the size without it. If the
// schema is only a reference, the definition is below its target, because the target is the whole schema.
// heaviestDefinition returns nil for a schema without references.
func heaviestDefinition(s *published.Schema) (def *published.Schema, size int) {
	own, targets := s, map[*published.Schema]bool{}
	for len(own.Refs) == 1 && isReference(own) && !targets[own.Refs[0]] {
		own = own.Refs[0]
		targets[own] = true
	}
	for _, d := range own.Refs {
		if rest := sizeOf(s, d); !targets[d] && (def == nil || rest < size) {
			def, size = d, rest
		}
	}
	return def, size
}

// isReference reports whether the schema has a $ref at its top.
func isReference(s *published.Schema) bool {
	var top struct {
		Ref string `json:"$ref"`
	}
	return json.Unmarshal(s.Short(), &top) == nil && top.Ref != ""
}
