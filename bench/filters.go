package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
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
	{"not equal", events.MatchRule{Argument: "notEqual", Path: "/name", Not: true}, `"web"`},
	{"gte", events.MatchRule{Argument: "gte", Path: "/size", Op: events.MatchGTE}, `2`},
	{"notBy, 2 actors", events.MatchRule{Argument: "notBy", Path: "/sender", Op: events.MatchIn, Not: true}, `["me","bot"]`},
	{"not in, 2 values, any of 8 elements", events.MatchRule{Argument: "without", Path: "/labels/*/name", Op: events.MatchIn, Not: true}, `["l0","l8"]`},
}

// serveFilters serves an event type with all filters. /admin/subscribe?n=…&url=…&arguments=… creates n subscriptions
// with these arguments.
func serveFilters(mux *http.ServeMux) {
	var es *server.Server
	var emitter *server.Emitter[json.RawMessage]
	mux.HandleFunc("GET /admin/subscribe", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		n, err := strconv.Atoi(q.Get("n"))
		if err == nil && es == nil {
			es, emitter, err = filterServer(q.Get("url"))
		}
		if err == nil {
			err = subscribeFiltered(r.Context(), es, q.Get("url"), n, q.Get("arguments"))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	onEmitCost(mux, func() error {
		if emitter == nil {
			return errors.New("no subscriptions were asked for")
		}
		return emitter.Emit(context.Background(), json.RawMessage(filterPayload))
	})
}

func filterServer(receiver string) (*server.Server, *server.Emitter[json.RawMessage], error) {
	es, err := hookServer(receiver, nil, -1)
	if err != nil {
		return nil, nil, err
	}
	info := events.Info{Name: "bench.filtered", Description: "For the cost of filters.",
		InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object"}`)}
	for _, f := range filters {
		info.Match = append(info.Match, f.rule)
	}
	emitter, err := server.Register(es, events.Type[json.RawMessage, json.RawMessage]{Info: info}, server.Hooks[json.RawMessage, json.RawMessage]{})
	return es, emitter, err
}

func subscribeFiltered(ctx context.Context, es *server.Server, receiver string, n int, arguments string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64)
	for i := range n {
		g.Go(func() error {
			_, err := es.Admin().Subscribe(ctx, operator.SubscribeRequest{SubscriptionKey: operator.SubscriptionKey{
				Principal: "bench", Event: "bench.filtered", URL: fmt.Sprintf("%s/hooks/%d", receiver, i), Arguments: json.RawMessage(arguments)}})
			return err
		})
	}
	return g.Wait()
}

// benchFilters measures the cost of an emit for each subscription that a filter excludes.
func benchFilters(ctx context.Context, s settings) ([]row, error) {
	receiver, err := start(ctx, "receiver")
	if err != nil {
		return nil, err
	}
	defer receiver.stop()
	const n = 10_000
	cost := func(n int, arguments string) (float64, error) {
		p, err := start(ctx, "filters")
		if err != nil {
			return 0, err
		}
		defer p.stop()
		if _, err := p.get(fmt.Sprintf("/admin/subscribe?n=%d&url=%s&arguments=%s", n, receiver.base, url.QueryEscape(arguments))); err != nil {
			return 0, err
		}
		return p.emitCost(s.rounds)
	}
	alone, err := cost(0, "{}")
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, f := range filters {
		beside, err := cost(n, fmt.Sprintf(`{%q:%s}`, f.rule.Argument, f.value))
		if err != nil {
			return nil, err
		}
		const bound = 512 // of one test under the append lock
		each := max(beside-alone, 0) / n
		rows = append(rows, row{fmt.Sprintf("emit, for each of 10,000 subscriptions that a filter rules out: %s (limit: target)", f.what),
			fmt.Sprintf("%d ns", bound), fmt.Sprintf("%.1f ns", each), each / bound, "≤ 1.00"})
	}
	return rows, nil
}
