package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// The message of an error begins with its name; a reason follows where there is one of ours (section
// 2 of the requirements), and clients read the kind from it as before.
func TestErrorMessages(t *testing.T) {
	for _, row := range []struct {
		err  *events.Error
		want string
	}{
		{notFound("event"), "NotFound: no such event type"},
		{notFound("subscription"), "NotFound: no such subscription"},
		{notFound("told by a hook"), "NotFound"},
		{unsupportedMode(wire.ModePush), "Unsupported: delivery mode push is not offered"},
		{unsupportedMode("pigeon\x1b[31m"), "Unsupported: the delivery mode is not offered"},
		{schemaChanged(featureInput), "Unsupported: inputSchema has changed"},
		{exhausted("subscriptions", 7), "ResourceExhausted: at most 7 subscriptions"},
		{exhausted("told by a hook", 7), "ResourceExhausted"},
		{errOverBudget, "ResourceExhausted: too many failed verifications"},
		{events.NewError(wire.CallbackEndpointError, map[string]string{"reason": "challenge_failed"}), "CallbackEndpointError: challenge_failed"},
		{events.NewError(wire.CallbackEndpointError, map[string]string{"reason": "secret of the endpoint"}), "CallbackEndpointError"},
		{events.Forbidden("told by a hook"), "Forbidden"},
		{events.Upstream("told by a check"), "UpstreamError"},
		{events.NewError(wire.Internal, nil), "InternalError"},
		{&events.Error{Kind: wire.NotFound, Message: "told by a hook"}, "NotFound"},
	} {
		for _, d := range []wire.Dialect{wire.Sketch, wire.SEP} {
			o := errorObject(row.err, d)
			if o.Message != row.want {
				t.Errorf("%v: %q, want %q", row.err, o.Message, row.want)
			}
			if kind, _, ok := wire.KindOf(o.Code, o.Message); !ok || kind != row.err.Kind {
				t.Errorf("%q is read as %v", o.Message, kind)
			}
		}
	}
	if kind, _, _ := wire.KindOf(-32603, "UpstreamError: later"); kind != wire.UpstreamError {
		t.Errorf("an UpstreamError with a reason is read as %v", kind)
	}
	if kind, _, _ := wire.KindOf(-32603, "UpstreamErrors"); kind != wire.Internal {
		t.Errorf("another message is read as %v", kind)
	}
}

// A refusal of our own checks names the first member and what is wrong with it; a hook's words stay in
// the data, as do those of hooks that wrap them. What the caller wrote is escaped and cut short.
func TestRefusalMessages(t *testing.T) {
	s := &Server{}
	r := &Request{}
	told := events.Invalid(events.FieldError{Path: "/told", Message: "told by a hook"})
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"ours":           {events.Invalid(events.FieldError{Path: "/delivery/url", Message: "has a blocked address"}), "InvalidParams: /delivery/url has a blocked address"},
		"whole params":   {events.Invalid(events.FieldError{Message: "must be an object"}), "InvalidParams: must be an object"},
		"several":        {events.Invalid(events.FieldError{Path: "/a", Message: "is required"}, events.FieldError{Path: "/b", Message: "is required"}), "InvalidParams: /a is required (and 1 more)"},
		"control":        {events.Invalid(events.FieldError{Path: "/a\x1b[2J\u202e\n", Message: "is not allowed"}), `InvalidParams: /a\x1b[2J\u202e\n is not allowed`},
		"hook":           {ofHook(told), "InvalidParams"},
		"hook that adds": {ofHook(fmt.Errorf("x: %w", told)), "InvalidParams"},
		"forbidding":     {asForbidden(context.Background(), ofHook(told)), "InvalidParams"},
		"plain error":    {errors.New("secret"), "InternalError"},
	} {
		if name == "plain error" || name == "hook that adds" {
			s.options.Logger = slog.New(slog.DiscardHandler)
		}
		if got := s.refusal(context.Background(), r, row.err).Message; got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	long := s.refusal(context.Background(), r, events.Invalid(events.FieldError{Path: "/" + strings.Repeat("ü", 5000), Message: "is not allowed"}))
	if len(long.Message) > 3*wire.MaxShown || !strings.HasSuffix(long.Message, "… is not allowed") {
		t.Errorf("%d bytes: %.80q", len(long.Message), long.Message)
	}
	var data json.RawMessage = s.refusal(context.Background(), r, ofHook(told)).Data
	if !strings.Contains(string(data), "told by a hook") {
		t.Errorf("data %s", data)
	}
}
