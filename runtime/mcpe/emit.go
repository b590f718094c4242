package mcpe

import (
	"maps"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Priority is how urgent one occurrence is for MCPE.
type Priority int

// The priorities, from the lowest.
const (
	PriorityLow Priority = iota + 1
	PriorityNormal
	PriorityHigh
	PriorityCritical
)

// WithPriority sets the priority of one occurrence, in place of its event type's; what is none of the four is normal.
// Filters of MCPE see it, and others in the occurrence's _meta.
func WithPriority(p Priority) events.EmitOption {
	if p < PriorityLow || p > PriorityCritical {
		p = PriorityNormal
	}
	return own("priority", func(any) any { return priorities[p-PriorityLow] })
}

// WithTags adds tags to one occurrence, beside those of its event type.
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
