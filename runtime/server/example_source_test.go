package server_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A check asks an upstream with the upstream's own cursor; here that is a number of messages.
func ExampleRegisterCheck() {
	ctx := context.Background()
	srv := mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer es.Shutdown(ctx)
	upstream := []string{"INC-1"}
	check := func(ctx context.Context, a arguments, cursor string) (events.Page[payload], error) {
		page := events.Page[payload]{Cursor: strconv.Itoa(len(upstream)), NextPoll: 10 * time.Second}
		if cursor == "" {
			return page, nil // where "now" is
		}
		seen, err := strconv.Atoi(cursor)
		if err != nil || seen < 0 || seen > len(upstream) { // the caller has written it
			page.Truncated = true
			return page, nil
		}
		for _, id := range upstream[seen:] {
			page.Items = append(page.Items, events.Item[payload]{ID: id, Data: payload{IncidentID: id, Severity: "P1"}})
		}
		return page, nil
	}
	if err := server.RegisterCheck(es, incidentCreated, check, server.Hooks[arguments, payload]{}); err != nil {
		fmt.Println(err)
		return
	}

	cursor, _ := pollOnce(ctx, es, "null")
	upstream = append(upstream, "INC-2", "INC-3")
	_, ids := pollOnce(ctx, es, cursor)
	fmt.Println(ids)
	// Output: [INC-2 INC-3]
}

// A check may yield what it finds: the server takes as much as it needs, and asks for the rest later.
func ExampleYield() {
	ctx := context.Background()
	srv := mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer es.Shutdown(ctx)
	type found = events.Found[payload]
	upstream := []string{"INC-1"}
	check := server.Yield[arguments, payload](func(_ context.Context, _ arguments, cursor string) iter.Seq2[found, error] {
		return func(yield func(found, error) bool) {
			seen, err := strconv.Atoi(cursor)
			if err != nil || seen < 0 || seen > len(upstream) { // empty, or the caller has written it
				yield(found{Cursor: strconv.Itoa(len(upstream)), Truncated: cursor != ""}, nil)
				return
			}
			for i, id := range upstream[seen:] {
				item := &events.Item[payload]{ID: id, Data: payload{IncidentID: id, Severity: "P1"}}
				if !yield(found{Item: item, Cursor: strconv.Itoa(seen + i + 1)}, nil) {
					return
				}
			}
		}
	})
	if err := server.RegisterCheck(es, incidentCreated, check.Check, server.Hooks[arguments, payload]{}); err != nil {
		fmt.Println(err)
		return
	}

	cursor, _ := pollOnce(ctx, es, "null")
	upstream = append(upstream, "INC-2", "INC-3")
	_, ids := pollOnce(ctx, es, cursor)
	fmt.Println(ids)
	// Output: [INC-2 INC-3]
}

// What is addressed to subscriptions reaches nobody else; OnSubscribe tells their ids.
func ExampleEmitter_Emit_to() {
	ctx := context.Background()
	srv := mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer es.Shutdown(ctx)
	var hers string
	created, err := server.Register(es, incidentCreated, server.Hooks[arguments, payload]{
		OnSubscribe: func(_ context.Context, sub server.Subscription, a *arguments) error {
			if a.Severity == "" {
				return events.Invalid(events.FieldError{Path: "/severity", Message: "is needed here"})
			}
			hers = sub.ID
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	cursor, _ := pollOnce(ctx, es, "null")
	for id, to := range map[string][]string{"evt_hers": {hers}, "evt_others": {"sub_of_somebody_else"}} {
		if err := created.Emit(ctx, payload{IncidentID: "INC-1", Severity: "P1"}, events.To(to...), events.WithID(id)); err != nil {
			fmt.Println(err)
		}
	}
	_, ids := pollOnce(ctx, es, cursor)
	fmt.Println(ids)
	// Output: [evt_hers]
}

// Emit validates; what breaks the schema is an error of the caller and reaches nobody.
func ExampleEmitter_Emit() {
	ctx := context.Background()
	srv := mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{MaxPayload: 64})
	if err != nil {
		fmt.Println(err)
		return
	}
	created, err := server.Register(es, incidentCreated, server.Hooks[arguments, payload]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = created.Emit(ctx, payload{IncidentID: "INC-1 " + string(make([]byte, 64)), Severity: "P1"})
	fmt.Println(errors.Is(err, events.ErrTooLarge))
	err = created.Emit(ctx, payload{IncidentID: "INC-1", Severity: "P1"}, events.WithID("not visible\n"))
	fmt.Println(errors.Is(err, events.ErrEventID))
	fmt.Println(es.Shutdown(ctx))
	err = created.Emit(ctx, payload{IncidentID: "INC-1", Severity: "P1"})
	fmt.Println(errors.Is(err, events.ErrClosed))
	// Output:
	// true
	// true
	// <nil>
	// true
}
