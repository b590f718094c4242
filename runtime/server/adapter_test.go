package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

func adapted(t *testing.T, o server.Options) (*server.Server, *server.Emitter[payload]) {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil), o)
	if err != nil {
		t.Fatal(err)
	}
	emitter, err := server.Register(es, incidentCreated, server.Hooks[arguments, payload]{})
	if err != nil {
		t.Fatal(err)
	}
	return es, emitter
}

// For adapters: a follower begins at the head, reads by the rules of its arguments and is one of the subscriptions. Package
// streaming tests the rest.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		es, emitter := adapted(t, server.Options{})
		defer es.Shutdown(ctx)
		emit := func(id, severity string) {
			if err := emitter.Emit(ctx, payload{id, severity}, events.WithID(id)); err != nil {
				t.Fatal(err)
			}
		}
		emit("before", "P1")
		head := port.Of(es).Head("incident.created")
		f, err := port.Of(es).Follow(ctx, port.FollowRequest{Event: "incident.created", Principal: "ann", Mode: "test", Arguments: json.RawMessage(`{"severity":"P1"}`)})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Passed() != head || head == "" {
			t.Errorf("begins at %q, the head is %q", f.Passed(), head)
		}
		emit("a", "P1")
		emit("b", "P2")
		emit("c", "P1")
		found, err := f.Next(ctx)
		if err != nil || len(found.Occurrences) != 2 || found.Occurrences[0].ID != "a" || found.Occurrences[1].ID != "c" || found.Gap || found.Cursor != f.Passed() {
			t.Fatalf("Next = %+v, %v", found, err)
		}
		if subs := es.Subscriptions(); len(subs) != 1 || subs[0].Mode != "test" || subs[0].Principal != "ann" {
			t.Errorf("subscriptions %+v", subs)
		}
	})
}

// AUTH-2, EVOL-1, SRV-6 for adapters: what ends a stream ends a follower.
func TestFollowerEnds(t *testing.T) {
	for name, end := range map[string]func(*server.Server){
		"Revoke":   func(es *server.Server) { es.Revoke(context.Background(), "ann") },
		"Remove":   func(es *server.Server) { _ = es.Remove("incident.created") },
		"Shutdown": func(es *server.Server) { go es.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				es, _ := adapted(t, server.Options{})
				f, err := port.Of(es).Follow(context.Background(), port.FollowRequest{Event: "incident.created", Principal: "ann", Mode: "test"})
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() {
					_, err := f.Next(context.Background())
					ended <- err
				}()
				synctest.Wait()
				end(es)
				err = <-ended
				var e *events.Error
				if closed := errors.Is(err, events.ErrClosed); closed != (name == "Shutdown") || !closed && !errors.As(err, &e) {
					t.Errorf("ended by %v", err)
				}
				f.Close()
				es.Shutdown(context.Background())
			})
		})
	}
}

// AUTH-1, LIST-4 for adapters: what a client may not subscribe to an adapter may not follow for it.
func TestFollowIsAuthorized(t *testing.T) {
	o := server.Options{
		Visible: func(_ context.Context, principal, _ string) bool { return principal != "blind" },
		Authorize: func(_ context.Context, principal, _ string, _ json.RawMessage) error {
			return map[string]error{"bob": events.Forbidden("")}[principal]
		},
	}
	es, _ := adapted(t, o)
	ctx := context.Background()
	defer es.Shutdown(ctx)
	for principal, want := range map[string]wire.Kind{"blind": wire.NotFound, "bob": wire.Forbidden, "ann": wire.InvalidParams} {
		args := json.RawMessage(`{}`)
		if principal == "ann" {
			args = json.RawMessage(`{"unknown":1}`)
		}
		_, err := port.Of(es).Follow(ctx, port.FollowRequest{Event: "incident.created", Principal: principal, Mode: "test", Arguments: args})
		may := port.Of(es).MayFollow(ctx, principal, "incident.created", args)
		var e, m *events.Error
		if !errors.As(err, &e) || !errors.As(may, &m) || e.Kind != want || m.Kind != want {
			t.Errorf("%s: Follow %v, MayFollow %v", principal, err, may)
		}
	}
	if all, err := port.Of(es).Types(ctx, "blind"); err != nil || len(all) != 0 {
		t.Errorf("Types for the blind: %v, %v", all, err)
	}
	if all, err := port.Of(es).Types(ctx, "ann"); err != nil || len(all) != 1 || all[0].Name != "incident.created" {
		t.Errorf("Types: %v, %v", all, err)
	}
	if subs := es.Subscriptions(); len(subs) != 0 {
		t.Errorf("a refusal left %+v", subs)
	}
}

// pollOnce calls pollAs without a principal, and prints an error.
func pollOnce(ctx context.Context, es *server.Server, cursor string) (next string, ids []string) {
	next, ids, err := pollAs(ctx, es, "", cursor)
	if err != nil {
		fmt.Println(err)
		return "null", nil
	}
	return next, ids
}

// pollAs polls incident.created for P1, as a carrier does for a client of the principal. It returns the next cursor as
// JSON, and the ids of the occurrences.
func pollAs(ctx context.Context, es *server.Server, principal, cursor string) (next string, ids []string, err error) {
	params := fmt.Sprintf(`{"name":"incident.created","arguments":{"severity":"P1"},"cursor":%s}`, cursor)
	res, err := port.Of(es).Call(ctx, port.Request{Method: wire.MethodPoll, Params: json.RawMessage(params), Principal: principal})
	if err != nil {
		return "", nil, err
	}
	var r wire.PollResult
	if err := json.Unmarshal(res, &r); err != nil {
		return "", nil, err
	}
	for _, e := range r.Events {
		ids = append(ids, e.EventID)
	}
	return fmt.Sprintf("%q", *r.Cursor), ids, nil
}

// subscribe does for the examples what a carrier does with a client's events/subscribe.
func subscribe(ctx context.Context, es *server.Server, principal, params string) error {
	_, err := port.Of(es).Call(ctx, port.Request{Method: wire.MethodSubscribe, Params: json.RawMessage(params), Principal: principal})
	return err
}
