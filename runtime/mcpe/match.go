package mcpe

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// matchesType reports whether a pattern matches the type. "p.*" matches types that begin with "p.",
// "*" matches all, and any other pattern matches exactly (MCPE-MATCH-2).
func matchesType(pattern, event string) bool {
	if pattern == "*" {
		return true
	}
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasSuffix(prefix, ".") {
		return strings.HasPrefix(event, prefix)
	}
	return pattern == event
}

// typeMatches reports whether a filter matches the type, ignoring priorities and tags.
func typeMatches(f *mcpewire.Filter, event string) bool {
	return len(f.EventTypes) == 0 || slices.ContainsFunc(f.EventTypes, func(p string) bool { return matchesType(p, event) })
}

// matches reports whether a filter matches the event (MCPE-MATCH-1).
func matches(f *mcpewire.Filter, e *mcpewire.Event) bool {
	return typeMatches(f, e.Type) &&
		(len(f.Priority) == 0 || slices.Contains(f.Priority, e.Metadata.Priority)) &&
		(len(f.Tags) == 0 || slices.ContainsFunc(f.Tags, func(t string) bool { return slices.Contains(e.Metadata.Tags, t) }))
}

// newEvent returns the MCPE event for an occurrence. The type determines the priority and the tags. The occurrence's
// _meta overrides the priority and adds tags.
func newEvent(o *events.Occurrence, info *events.MCPE) mcpewire.Event {
	e := mcpewire.Event{ID: eventID(o.Name, o.ID), Type: o.Name, Data: o.Raw,
		Metadata: mcpewire.Metadata{SourceEventID: o.ID, Timestamp: o.Timestamp.String(), Priority: wire.MCPENormal}}
	if info != nil {
		if info.Priority != "" {
			e.Metadata.Priority = info.Priority
		}
		e.Metadata.Tags = info.Tags
	}
	if len(o.Meta) > 0 {
		var meta map[string]json.RawMessage
		var own struct {
			Priority string   `json:"priority"`
			Tags     []string `json:"tags"`
		}
		if json.Unmarshal(o.Meta, &meta) == nil && json.Unmarshal(meta[wire.MetaMCPE], &own) == nil {
			if slices.Contains(priorities, own.Priority) {
				e.Metadata.Priority = own.Priority
			}
			if len(own.Tags) > 0 {
				e.Metadata.Tags = append(slices.Clone(e.Metadata.Tags), own.Tags...)
			}
		}
	}
	return e
}
