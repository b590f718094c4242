package evolve_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

// A graph is definitions that refer to each other, as texts.
type graph struct {
	defs []string
	refs [][]int
}

func (g graph) schemas() *eventsimpl.Schemas {
	var defs, refs, tops []string
	for i, text := range g.defs {
		defs = append(defs, fmt.Sprintf(`"D%d":%s`, i, text))
		var to []string
		for _, r := range g.refs[i] {
			to = append(to, fmt.Sprintf(`"D%d"`, r))
		}
		refs = append(refs, fmt.Sprintf(`"D%d":[%s]`, i, strings.Join(to, ",")))
		tops = append(tops, fmt.Sprintf(`"e%d":{"fingerprint":"f","inputSchema":{"type":"object"},"payloadSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/D%d"}},"$defs":["D%d"]}}`, i, i, i))
	}
	return eventsimpl.NewSchemas(`{"$defs":{` + strings.Join(defs, ",") + `},"refs":{` + strings.Join(refs, ",") + `},"events":{` + strings.Join(tops, ",") + `}}`)
}

func side(s *eventsimpl.Schemas, name string) (evolve.Side, wire.Descriptor) {
	i := s.Describe(name)
	d := published.Of(&i)
	return evolve.Side{Input: d.Input, Payload: d.Payload}, wire.Descriptor{Name: name, InputSchema: i.InputSchema, PayloadSchema: i.PayloadSchema}
}

// verdict says whether something breaks peers, or strict readers at most. Which of several fitting variants the
// changes are told of is for the order.
func verdict(changes []evolve.Change) string {
	out := "compatible"
	for _, c := range changes {
		if c.Category == evolve.Wire {
			return "breaking"
		}
		out = "strict"
	}
	return out
}

// Q2: the verdict about an event type does not depend on which others were compared before, nor on whether its
// definitions are apart: pairs that lead back to themselves, and unions that fit one way or another, included.
func TestVersionsFindAlike(t *testing.T) {
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 2 + r.IntN(6)
		old := graph{make([]string, n), make([][]int, n)}
		changed := graph{make([]string, n), old.refs}
		ref := func(i int) string { return fmt.Sprintf(`{"$ref":"#/$defs/D%d"}`, i) }
		for i := range n {
			a, b := r.IntN(n), r.IntN(n)
			second := []string{ref(b), `{"anyOf":[{"type":"string"},` + ref(b) + `]}`, `{"oneOf":[` + ref(a) + `,` + ref(b) + `]}`,
				`{"type":"array","items":` + ref(b) + `}`, `{"type":["object","null"],"additionalProperties":` + ref(b) + `}`}[r.IntN(5)]
			old.refs[i] = []int{a, b}
			if a == b {
				old.refs[i] = []int{a}
			}
			const form = `{"type":"object","properties":{"id":{"type":%q},"a":%s,"b":%s%s},"required":[%s],"additionalProperties":%t}`
			open := r.IntN(3) > 0
			old.defs[i] = fmt.Sprintf(form, "string", ref(a), second, "", `"id"`, open)
			changed.defs[i] = old.defs[i]
			switch r.IntN(5) {
			case 0:
				changed.defs[i] = fmt.Sprintf(form, "string", ref(a), second, `,"more":{"type":"string"}`, `"id"`, open)
			case 1:
				changed.defs[i] = fmt.Sprintf(form, "integer", ref(a), second, "", `"id"`, open)
			case 2:
				changed.defs[i] = fmt.Sprintf(form, "string", ref(a), second, "", ``, open)
			}
		}
		before, after := old.schemas(), changed.schemas()
		names := before.Events()
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var together evolve.Versions
		for _, name := range names {
			was, wasText := side(before, name)
			is, isText := side(after, name)
			var alone evolve.Versions
			want := verdict(evolve.Differences(wasText, isText))
			if got := verdict(alone.Differences(name, was, is)); got != want {
				t.Fatalf("seed %d, %s apart:\n%q, want\n%q", seed, name, got, want)
			}
			if got := verdict(together.Differences(name, was, is)); got != want {
				t.Fatalf("seed %d, %s after others:\n%q, want\n%q", seed, name, got, want)
			}
		}
	}
}

// ring is n definitions, each of which leads to two others, as q2's.
func ring(n int) graph {
	g := graph{}
	for i := range n {
		a, b := (i+1)%n, (7*i+3)%n
		g.defs = append(g.defs, fmt.Sprintf(`{"type":"object","properties":{"id":{"type":"string"},"next":{"$ref":"#/$defs/D%d"},"x":{"$ref":"#/$defs/D%d"}},"required":["id"]}`, a, b))
		g.refs = append(g.refs, []int{a, b})
	}
	return g
}

// Q2, EVOL-3: an optional field that is added to a definition which others lead to in many ways is no change of
// any category, and a changed type is found in every event type.
func TestRing(t *testing.T) {
	const n = 100
	old, added, retyped := ring(n), ring(n), ring(n)
	added.defs[0] = strings.Replace(added.defs[0], `"id":{`, `"more":{"type":"string"},"id":{`, 1)
	retyped.defs[0] = strings.Replace(retyped.defs[0], `"type":"string"`, `"type":"integer"`, 1)
	before := old.schemas()
	for what, c := range map[string]struct {
		after *eventsimpl.Schemas
		wire  bool
	}{"added": {added.schemas(), false}, "retyped": {retyped.schemas(), true}} {
		var v evolve.Versions
		for _, name := range before.Events() {
			was, wasText := side(before, name)
			is, isText := side(c.after, name)
			changes := v.Differences(name, was, is)
			if got := slices.ContainsFunc(changes, func(c evolve.Change) bool { return c.Category == evolve.Wire }); got != c.wire || len(changes) > 0 != c.wire {
				t.Fatalf("%s: %s has %v", what, name, changes[:min(len(changes), 3)])
			}
			if name == "e7" {
				if live := evolve.Compare(wasText, isText); len(live) > 0 != c.wire {
					t.Fatalf("%s, live: %v", what, live[:min(len(live), 3)])
				}
			}
		}
	}
}
