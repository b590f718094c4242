package breaking_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// matchPayloads are what the rules of TestMatchVerdictsHold are tried on, at /n and within /l.
var matchPayloads = []string{
	`{}`, `{"n":null,"l":[]}`, `{"n":0}`, `{"n":1}`, `{"n":2.0}`, `{"n":3}`,
	`{"l":[{}]}`, `{"l":[{"n":0}]}`, `{"l":[{"n":2}]}`, `{"l":[{"n":0},{"n":1}]}`, `{"l":[{"n":2},{"n":1}]}`, `{"l":[{"n":3},{"n":0}]}`, `{"l":[{},{"n":2}]}`,
}

// MATCH-3: what is said of a changed x-match, fewer, more or nothing, holds for the occurrences that a server delivers to
// subscriptions with the old rule and with the new.
func TestMatchVerdictsHold(t *testing.T) {
	var rules []events.MatchRule
	for _, path := range []string{"/n", "/l/0/n", "/l/*/n"} {
		for _, op := range []events.MatchOp{"equal", "lt", "lte", "gt", "gte", "min", "max"} {
			rules = append(rules, events.MatchRule{Argument: "q", Path: path, Op: op}, events.MatchRule{Argument: "q", Path: path, Op: op, Not: true})
		}
	}
	selected := selections(t, rules)
	versions := make([][]breaking.Package, len(rules))
	for i, r := range rules {
		versions[i] = version(t, "events.yaml", fmt.Appendf(nil, `version: 1
events:
  - name: e
    description: E.
    inputSchema: {type: object, properties: {q: {type: integer, x-match: {path: %s, op: %s, not: %v}}}}
    payloadSchema: {type: object, properties: {n: {type: [integer, 'null']}, l: {type: array, items: {type: object, properties: {n: {type: integer}}}}}}
`, r.Path, r.Op, r.Not))
	}
	receives := regexp.MustCompile(`receives (\w+) occurrences`)
	counts := map[string]int{}
	for i, was := range rules {
		for j, is := range rules {
			verdict := "the same"
			for _, d := range breaking.Compare(versions[i], versions[j], breaking.Options{Rules: rule.Selection{Use: []string{"MATCH_CHANGED"}}, Now: today}) {
				verdict = receives.FindStringSubmatch(d.Message)[1]
			}
			counts[verdict]++
			for v := range selected[i] {
				before, after := selected[i][v], selected[j][v]
				holds := map[string]bool{"the same": maps.Equal(before, after), "fewer": within(after, before), "more": within(before, after), "other": true}[verdict]
				if !holds {
					t.Errorf("%+v became %+v, which is said to give %s: with %d it selected %v, and selects %v", was, is, verdict, v, keys(before), keys(after))
				}
			}
		}
	}
	// A comparison that says nothing certain would pass, too.
	if counts["fewer"] < 40 || counts["fewer"] != counts["more"] || counts["the same"] != len(rules)+3*2*2*2 {
		t.Error(counts)
	}
}

// selections returns for each rule and each argument from 0 to 3 the payloads that a server delivers.
func selections(t *testing.T, rules []events.MatchRule) [][]map[string]bool {
	es := eventstest.NewServer(t)
	var tools []readtool.Tool
	emitters := make([]*server.Emitter[json.RawMessage], len(rules))
	for i, r := range rules {
		info := events.Info{Name: fmt.Sprint("e", i), Description: "An event of a test.", Match: []events.MatchRule{r},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"integer"}}}`), PayloadSchema: json.RawMessage(`{"type":"object"}`)}
		var err error
		if emitters[i], err = server.Register(es, events.Type[json.RawMessage, json.RawMessage]{Info: info}, server.Hooks[json.RawMessage, json.RawMessage]{}); err != nil {
			t.Fatal(err)
		}
		tools = append(tools, readtool.Of(info))
	}
	if err := es.AddReadTools(tools...); err != nil {
		t.Fatal(err)
	}
	session := eventstest.NewClient(t, es).Session()
	read := func(i int, args map[string]any) (cursor string, all map[string]bool) {
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tools[i].Tool.Name, Arguments: args})
		if err != nil || res.IsError {
			t.Fatal(err, res)
		}
		text, err := json.Marshal(res.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		var out struct {
			Cursor string
			Events []struct{ Data json.RawMessage }
		}
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatal(err)
		}
		all = map[string]bool{}
		for _, e := range out.Events {
			all[string(e.Data)] = true
		}
		return out.Cursor, all
	}
	selected := make([][]map[string]bool, len(rules))
	for i, e := range emitters {
		cursor, _ := read(i, nil)
		for _, p := range matchPayloads {
			eventstest.Emit(t, e, json.RawMessage(p))
		}
		for v := range 4 {
			_, all := read(i, map[string]any{"q": v, "cursor": cursor, "maxEvents": 100})
			selected[i] = append(selected[i], all)
		}
	}
	return selected
}

func within(some, all map[string]bool) bool {
	for p := range some {
		if !all[p] {
			return false
		}
	}
	return true
}

func keys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
