package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
)

// The message of an error begins with its name; a reason follows where there is one of ours (section
// 2 of the requirements), and clients read the kind from it as before.
func TestErrorMessages(t *testing.T) {
	for _, row := range []struct {
		err  *events.Error
		want string
	}{
		{NotFound("event"), "NotFound: no such event type"},
		{NotFound("subscription"), "NotFound: no such subscription"},
		{NotFound("told by a hook"), "NotFound"},
		{UnsupportedMode(wire.ModePush), "Unsupported: delivery mode push is not offered"},
		{UnsupportedMode("pigeon\x1b[31m"), "Unsupported: the delivery mode is not offered"},
		{SchemaChanged(FeatureInput), "Unsupported: inputSchema has changed"},
		{Exhausted("subscriptions", 7), "ResourceExhausted: at most 7 subscriptions"},
		{Exhausted("told by a hook", 7), "ResourceExhausted"},
		{events.NewError(wire.ResourceExhausted, map[string]string{"limit": "verifications"}), "ResourceExhausted: too many failed verifications"},
		{Exhausted("verifications", 2000), "ResourceExhausted: at most 2000 verified callbacks"},
		{Exhausted("streams", 7), "ResourceExhausted: at most 7 streams"},
		{Unverified(ReasonUndecided), "ResourceExhausted: too many verifications are under way"},
		{Unverified(ReasonOthers), "ResourceExhausted: too many failed verifications of this host, by other callers"},
		{events.NewError(wire.ResourceExhausted, map[string]string{"limit": "verifications", "reason": "told by a hook"}), "ResourceExhausted"},
		{events.NewError(wire.CallbackEndpointError, map[string]string{"reason": "challenge_failed"}), "CallbackEndpointError: challenge_failed"},
		{events.NewError(wire.CallbackEndpointError, map[string]string{"reason": "secret of the endpoint"}), "CallbackEndpointError"},
		{events.Forbidden("told by a hook"), "Forbidden"},
		{events.Upstream("told by a check"), "UpstreamError"},
		{events.NewError(wire.Internal, nil), "InternalError"},
		{&events.Error{Kind: wire.NotFound, Message: "told by a hook"}, "NotFound"},
	} {
		for _, d := range []wire.Dialect{wire.Sketch, wire.SEP} {
			o := Object(row.err, d)
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
	told := events.Invalid(events.FieldError{Path: "/told", Message: "told by a hook"})
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"ours":           {events.Invalid(events.FieldError{Path: "/delivery/url", Message: "has a blocked address"}), "InvalidParams: /delivery/url has a blocked address"},
		"whole params":   {events.Invalid(events.FieldError{Message: "must be an object"}), "InvalidParams: must be an object"},
		"several":        {events.Invalid(events.FieldError{Path: "/a", Message: "is required"}, events.FieldError{Path: "/b", Message: "is required"}), "InvalidParams: /a is required (and 1 more)"},
		"control":        {events.Invalid(events.FieldError{Path: "/a\x1b[2J\u202e\n", Message: "is not allowed"}), `InvalidParams: /a\x1b[2J\u202e\n is not allowed`},
		"hook":           {hook.Mark(told), "InvalidParams"},
		"hook that adds": {hook.Mark(fmt.Errorf("x: %w", told)), "InvalidParams"},
		"forbidding":     {AsForbidden(context.Background(), hook.Mark(told)), "InvalidParams"},
		"plain error":    {errors.New("secret"), "InternalError"},
	} {
		if got := Answer(row.err, wire.Sketch).Message; got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	long := Answer(events.Invalid(events.FieldError{Path: "/" + strings.Repeat("ü", 5000), Message: "is not allowed"}), wire.Sketch)
	if len(long.Message) > 3*wire.MaxShown || !strings.HasSuffix(long.Message, "… is not allowed") {
		t.Errorf("%d bytes: %.80q", len(long.Message), long.Message)
	}
	data := Answer(hook.Mark(told), wire.Sketch).Data
	if !strings.Contains(string(data), "told by a hook") {
		t.Errorf("data %s", data)
	}
}
