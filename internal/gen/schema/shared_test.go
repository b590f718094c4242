package schema_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Q2: what a schema publishes does not depend on what the set has published before: schemas of one name in several
// files, definitions of the author's own under such a name, and references back to the top, which are written
// differently in each, included. The fingerprint is that of what is published.
func TestSharedAsAlone(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		ref := func(file int) string {
			to := r.IntN(3)
			if to == file {
				return fmt.Sprintf(`{"$ref":"#/schemas/S%d"}`, r.IntN(4))
			}
			return fmt.Sprintf(`{"$ref":"f%d.json#/schemas/S%d%s"}`, to, r.IntN(4), []string{"", "/properties/id"}[r.IntN(2)])
		}
		files := map[string]string{}
		for f := range 3 {
			var schemas, types []string
			for i := range 4 {
				schemas = append(schemas, fmt.Sprintf(`"S%d":{"type":"object","properties":{"id":{"type":"string","maxLength":%d},"a":%s,"b":%s}}`, i, 10+f, ref(f), ref(f)))
			}
			for i := range 3 {
				own := ""
				if r.IntN(3) == 0 {
					own = `,"own":{"$ref":"#/$defs/S1"},"self":{"$ref":"#"}`
				}
				payload := fmt.Sprintf(`{"type":"object","properties":{"x":%s,"y":%s%s}`, ref(f), ref(f), own)
				if own != "" {
					payload += `,"$defs":{"S1":{"type":"boolean"}}`
				}
				types = append(types, fmt.Sprintf(`{"name":"f%d.e%d","description":"Fires.","inputSchema":{"type":"object"},"payloadSchema":%s}}`, f, i, payload))
			}
			files[fmt.Sprintf("f%d.json", f)] = `{"version":1,"schemas":{` + strings.Join(schemas, ",") + `},"events":[` + strings.Join(types, ",") + `]}`
		}
		load := func() []*schema.Event {
			set, found := schema.Load([]string{"f0.json", "f1.json", "f2.json"}, schema.Options{ReadFile: func(path string) ([]byte, error) { return []byte(files[path]), nil }})
			if source.HasErrors(found) {
				t.Fatalf("seed %d: %v", seed, found)
			}
			var all []*schema.Event
			for _, f := range set.Files {
				all = append(all, f.Events...)
			}
			sets[all[0]] = set
			return all
		}
		together := load()
		set := sets[together[0]]
		kept := map[*published.Schema]bool{}
		for i, e := range together {
			shared := set.Shared(e.Payload)
			alone := load()
			want := sets[alone[0]].Published(alone[i].Payload)
			if got := shared.JSON(); string(got) != string(want) {
				t.Fatalf("seed %d, %s publishes\n%s, alone\n%s", seed, e.Name, got, want)
			}
			got, err1 := set.Fingerprint(set.Shared(e.Input), shared)
			print, err2 := wire.Fingerprint(set.Published(e.Input), want)
			if err1 != nil || err2 != nil || got != print {
				t.Fatalf("seed %d, %s has the fingerprint %s, want %s (%v, %v)", seed, e.Name, got, print, err1, err2)
			}
			for _, d := range shared.Definitions() {
				kept[d] = true
			}
			clear(sets)
			sets[together[0]] = set
		}
		if seed == 0 && len(kept) == 0 {
			t.Error("no definition is kept apart")
		}
	}
}

// sets are those of the events that were loaded first.
var sets = map[*schema.Event]*schema.Set{}

// Q2: event types that lead to the same schemas have the same copies.
func TestSharedOnce(t *testing.T) {
	const n = 50
	var schemas, types []string
	for i := range n {
		schemas = append(schemas, fmt.Sprintf(`"S%d":{"type":"object","properties":{"next":{"$ref":"#/schemas/S%d"},"x":{"$ref":"#/schemas/S%d"}}}`, i, (i+1)%n, (7*i+3)%n))
		types = append(types, fmt.Sprintf(`{"name":"s.t%d","description":"Fires.","inputSchema":{"type":"object"},"payloadSchema":{"$ref":"#/schemas/S%d"}}`, i, i))
	}
	text := `{"version":1,"schemas":{` + strings.Join(schemas, ",") + `},"events":[` + strings.Join(types, ",") + `]}`
	set, found := schema.Load([]string{"s.json"}, schema.Options{ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	all := map[*published.Schema]bool{}
	for _, e := range set.Files[0].Events {
		defs := set.Shared(e.Payload).Definitions()
		if len(defs) != n {
			t.Fatalf("%s leads to %d definitions", e.Name, len(defs))
		}
		for _, d := range defs {
			all[d] = true
		}
	}
	if len(all) != n {
		t.Errorf("%d event types over %d schemas have %d definitions", n, n, len(all))
	}
}
