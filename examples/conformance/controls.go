package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// Arguments of the controls. Their schemas do not allow additional properties.
type (
	none   struct{}
	byName struct {
		Name string `json:"name" jsonschema:"an event type"`
	}
	byID struct {
		ID string `json:"id" jsonschema:"a subscription"`
	}
	byOrigin struct {
		Origin string `json:"origin" jsonschema:"scheme, host and port of a callback"`
	}
	byKey struct {
		Principal string `json:"principal" jsonschema:"whose subscription"`
		Name      string `json:"name" jsonschema:"an event type"`
		URL       string `json:"url" jsonschema:"the callback"`
	}
)

// control adds a tool that returns a single text block. An error of f becomes a tool error.
func control[A any](srv *mcp.Server, name, description string, f func(context.Context, A) (string, error)) {
	mcp.AddTool(srv, &mcp.Tool{Name: "events_conformance_" + name, Description: description},
		func(ctx context.Context, _ *mcp.CallToolRequest, a A) (*mcp.CallToolResult, any, error) {
			text, err := f(ctx, a)
			if err != nil {
				return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil, nil
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
}

// performed waits until the server has performed all requests for a webhook subscription, and describes it.
func performed(ctx context.Context, admin operator.Admin, id string) (operator.WebhookInfo, error) {
	for {
		i, err := admin.Get(ctx, id)
		if err != nil || !slices.ContainsFunc(i.Requests, func(q operator.Request) bool { return q.Pending() }) {
			return i, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// addControls adds the diagnostic controls to a generation.
func (f *fixture) addControls(srv *mcp.Server, g *generation) {
	admin := g.es.Admin()
	const ok = "ok"
	control(srv, "yield_error", "Send notifications/events/error on every live stream of an event type; the streams stay open.",
		func(ctx context.Context, a byName) (string, error) {
			_, err := admin.RaiseError(ctx, operator.Target{Event: a.Name}, events.Upstream("raised by a control"))
			return ok, err
		})
	control(srv, "yield_gap", "Send a fresh active with truncated true on every stream of an event type, and a gap envelope to its webhooks.",
		func(ctx context.Context, a byName) (string, error) {
			_, err := admin.RaiseGap(ctx, operator.Target{Event: a.Name})
			return ok, err
		})
	control(srv, "terminate", "End every subscription of an event type until the process ends.",
		func(ctx context.Context, a byName) (string, error) {
			if _, err := admin.Terminate(ctx, operator.Target{Event: a.Name}, nil); err != nil {
				return "", err
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if !slices.Contains(f.terminated, a.Name) {
				f.terminated = append(f.terminated, a.Name)
			}
			return ok, nil
		})
	control(srv, "quota", "Report the event type whose streams are capped, and the cap.",
		func(context.Context, none) (string, error) {
			b, err := json.Marshal(struct {
				Name string `json:"name"`
				Max  int    `json:"max"`
			}{cappedName, cappedStreams})
			return string(b), err
		})
	control(srv, "allow_callback_origin", "Lift the https and address rules for one exact callback origin until the process ends.",
		func(_ context.Context, a byOrigin) (string, error) {
			if _, err := admin.AllowOrigin(a.Origin); err != nil {
				return "", err
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if !slices.Contains(f.origins, a.Origin) {
				f.origins = append(f.origins, a.Origin)
			}
			return a.Origin, nil
		})
	control(srv, "webhook_gap", "Send a signed gap envelope to a subscription and answer its cursor.",
		func(ctx context.Context, a byID) (string, error) {
			if _, err := admin.RaiseGap(ctx, operator.Target{ID: a.ID}); err != nil {
				return "", err
			}
			info, err := performed(ctx, admin, a.ID)
			if err != nil || info.Cursor == nil {
				return "", errors.Join(err, errors.New("the subscription has no cursor"))
			}
			return *info.Cursor, nil
		})
	control(srv, "webhook_terminate", "Send a signed terminated envelope to a subscription and remove it.",
		func(ctx context.Context, a byID) (string, error) {
			if _, err := admin.End(ctx, a.ID, nil); err != nil {
				return "", err
			}
			if _, err := performed(ctx, admin, a.ID); !errors.Is(err, events.ErrNotFound) {
				return "", err
			}
			return ok, nil
		})
	control(srv, "subscribe_as", "Register a webhook subscription of another principal, without verification, and answer its id.",
		func(ctx context.Context, a byKey) (string, error) {
			return admin.Subscribe(ctx, operator.SubscribeRequest{SubscriptionKey: a.key()})
		})
	control(srv, "subscription_exists", "Tell whether a principal has a webhook subscription for an event type and callback.",
		func(ctx context.Context, a byKey) (string, error) {
			_, err := admin.Lookup(ctx, a.key())
			if errors.Is(err, events.ErrNotFound) {
				return "false", nil
			}
			return "true", err
		})
	control(srv, "restart", "Rebuild the server over the same store; answers the generation it moves to.",
		func(context.Context, none) (string, error) { return strconv.Itoa(f.restart()), nil })
	control(srv, "generation", "Tell the generation, from 1.",
		func(context.Context, none) (string, error) { return strconv.Itoa(g.number), nil })
	control(srv, "subscription_state", "Tell the state of a webhook subscription: active, suspended or absent.",
		func(ctx context.Context, a byID) (string, error) {
			state, err := admin.State(ctx, a.ID)
			return string(state), err
		})
}

func (k byKey) key() operator.SubscriptionKey {
	return operator.SubscriptionKey{Principal: k.Principal, URL: k.URL, Event: k.Name}
}
