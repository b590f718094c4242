package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// filterPayload is emitted to subscriptions with a filter.
const filterPayload = `{"name":"web","size":1,"sender":"bot","labels":[{"name":"l1"},{"name":"l2"},{"name":"l3"},{"name":"l4"},{"name":"l5"},{"name":"l6"},{"name":"l7"},{"name":"l8"}]}`

// A filter is an x-match rule with an argument that excludes the emitted payload.
type filter struct {
	what  string
	rule  events.MatchRule
	value string
}

var filters = []filter{
	{"equal", events.MatchRule{Argument: "equal", Path: "/name"}, `"db"`},
	{"equal, any of 8 elements", events.MatchRule{Argument: "element", Path: "/labels/*/name"}, `"l9"`},
	{"in, 2 values", events.MatchRule{Argument: "in", Path: "/name", Op: events.MatchIn}, `["db","cache"]`},
	{"glob", events.MatchRule{Argument: "glob", Path: "/name", Op: events.MatchGlob}, `"d*"`},
	{"prefix", events.MatchRule{Argument: "prefix", Path: "/name", Op: events.MatchPrefix}, `"d"`},
	{"lt", events.MatchRule{Argument: "lt", Path: "/size", Op: events.MatchLT}, `1`},
	{"lte", events.MatchRule{Argument: "lte", Path: "/size", Op: events.MatchLTE}, `0`},
	{"gt", events.MatchRule{Argument: "gt", Path: "/size", Op: events.MatchGT}, `1`},
	{"gte", events.MatchRule{Argument: "gte", Path: "/size", Op: events.MatchGTE}, `2`},
	{"not equal", events.MatchRule{Argument: "notEqual", Path: "/name", Not: true}, `"web"`},
	{"notBy, 2 actors", events.MatchRule{Argument: "notBy", Path: "/sender", Op: events.MatchIn, Not: true}, `["me","bot"]`},
	{"not in, 2 values, any of 8 elements", events.MatchRule{Argument: "without", Path: "/labels/*/name", Op: events.MatchIn, Not: true}, `["l0","l8"]`},
}

// serveFilters serves an event type with all filters. place is the receiver's URL.
func serveFilters(mux *http.ServeMux, place string) error {
	es, err := hookServer(place, nil, -1)
	if err != nil {
		return err
	}
	info := events.Info{Name: "bench.filtered", Description: "For the cost of filters.",
		InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object"}`)}
	for _, f := range filters {
		info.Match = append(info.Match, f.rule)
	}
	emitter, err := server.Register(es, events.Type[json.RawMessage, json.RawMessage]{Info: info}, server.Hooks[json.RawMessage, json.RawMessage]{})
	if err != nil {
		return err
	}
	onSubscribe(mux, es, info.Name, place)
	onEmitCost(mux, func() error { return emitter.Emit(context.Background(), json.RawMessage(filterPayload)) })
	return nil
}

// benchFilters measures the CPU time of an emit for each subscription that a filter excludes.
func benchFilters(b *bench) {
	receiver := b.start("receiver")
	const n = 10_000
	costOf := func(p *process) func() float64 { return func() float64 { return b.emitCost(p).CPU } }
	alone := median(b.inTurns(costOf(b.start("filters", receiver.base)))[0])
	for _, f := range filters {
		p := b.start("filters", receiver.base)
		b.subscribe(p, n, "hooks", fmt.Sprintf(`{%q:%s}`, f.rule.Argument, f.value))
		b.emitCost(p) // includes work that subscribing has left
		each := b.inTurns(costOf(p))[0]
		p.stop()
		for i, all := range each {
			each[i] = max(0, all-alone) / n
		}
		b.against("CPU time of an emit for each exclusion by "+f.what, nil, each, nanoseconds, "")
	}
}
