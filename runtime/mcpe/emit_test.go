package mcpe_test

import (
	"encoding/json"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
)

// MCPE-MATCH-1: priority and tags of one occurrence are options of Emit, which go together with each other and with the
// rest of _meta, in any order.
func TestEmitOptions(t *testing.T) {
	for name, c := range map[string]struct {
		options []events.EmitOption
		want    string
	}{
		"priority": {[]events.EmitOption{mcpe.WithPriority(mcpe.PriorityCritical)}, `{"priority":"critical"}`},
		"none":     {[]events.EmitOption{mcpe.WithPriority(99)}, `{"priority":"normal"}`},
		"tags":     {[]events.EmitOption{mcpe.WithTags("a"), mcpe.WithTags("b", "c")}, `{"tags":["a","b","c"]}`},
		"both":     {[]events.EmitOption{mcpe.WithTags("a"), mcpe.WithPriority(mcpe.PriorityLow)}, `{"priority":"low","tags":["a"]}`},
		"by hand": {[]events.EmitOption{events.WithMeta(map[string]any{wire.MetaMCPE: map[string]any{"tags": []string{"x"}, "more": 1}}), mcpe.WithTags("a")},
			`{"more":1,"tags":["x","a"]}`},
	} {
		for range 2 { // an option may be used again
			o := events.EmitOptions{}
			for _, set := range append(c.options, events.WithMeta(map[string]any{"other": true})) {
				set(&o)
			}
			got, err := json.Marshal(o.Meta[wire.MetaMCPE])
			if err != nil || string(got) != c.want || o.Meta["other"] != true {
				t.Errorf("%s: %s %v, want %s", name, got, o.Meta, c.want)
			}
		}
	}
}

// A filter sees the priority and the tags of the occurrence.
func TestEmitOptionsReachFilters(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		p.subscribe(`{"filter":{"tags":["late"],"priority":["critical"]}}`)
		for i, o := range [][]events.EmitOption{{mcpe.WithTags("late")}, {mcpe.WithTags("late", "other"), mcpe.WithPriority(mcpe.PriorityCritical)},
			{mcpe.WithPriority(mcpe.PriorityCritical)}} {
			if err := g.emits["github.push"].Emit(t.Context(), payload{N: i + 1}, o...); err != nil {
				t.Fatal(err)
			}
		}
		p.want("event(2)")
	})
}
