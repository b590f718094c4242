package mcpe

import (
	"maps"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Priority is the urgency of an occurrence in MCPE.
type Priority int

// The priorities, lowest first.
const (
	PriorityLow Priority = iota + 1
	PriorityNormal
	PriorityHigh
	PriorityCritical
)

// WithPriority sets the priority of an occurrence, overriding the priority of its event type. An unknown priority means
// normal. MCPE filters use the priority. Other clients receive it in the occurrence's _meta.
func WithPriority(p Priority) events.EmitOption {
	if p < PriorityLow || p > PriorityCritical {
		p = PriorityNormal
	}
	return setMember("priority", func(any) any { return priorities[p-PriorityLow] })
}

// WithTags adds tags to the tags that an occurrence inherits from its event type.
func WithTags(tags ...string) events.EmitOption {
	return setMember("tags", func(before any) any {
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

// setMember returns an option that sets a member of the MCPE object in an occurrence's _meta.
func setMember(member string, set func(before any) any) events.EmitOption {
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
