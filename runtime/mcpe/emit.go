package mcpe

import (
	"maps"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Priority is the urgency of one occurrence in MCPE.
type Priority int

// The priorities, lowest first.
const (
	PriorityLow Priority = iota + 1
	PriorityNormal
	PriorityHigh
	PriorityCritical
)

// WithPriority sets the priority of one occurrence, overriding that of its event type. An unknown priority means
// normal. MCPE filters use the priority; other clients see it in the occurrence's _meta.
func WithPriority(p Priority) events.EmitOption {
	if p < PriorityLow || p > PriorityCritical {
		p = PriorityNormal
	}
	return own("priority", func(any) any { return priorities[p-PriorityLow] })
}

// WithTags adds tags to one occurrence, in addition to the tags of its event type.
func WithTags(tags ...string) events.EmitOption {
	return own("tags", func(before any) any {
		var all []any
		switch list := before.(type) {
		case []any:
			all = append(all, list...)
		case []string:
			for _, tag := range list {
				all = append(all, tag)
			}
		}
		for _, tag := range tags {
			all = append(all, tag)
		}
		return all
	})
}

// own sets a member of MCPE's part of an occurrence's _meta.
func own(member string, set func(before any) any) events.EmitOption {
	return func(o *events.EmitOptions) {
		before, _ := o.Meta[wire.MetaMCPE].(map[string]any)
		part := maps.Clone(before)
		if part == nil {
			part = map[string]any{}
		}
		part[member] = set(part[member])
		events.WithMeta(map[string]any{wire.MetaMCPE: part})(o)
	}
}
