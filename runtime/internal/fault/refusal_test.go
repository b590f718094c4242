package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
)

// AUTH-1, PUSH-5: an error of an Authorize hook is Forbidden and one of a check UpstreamError, unless it is one of the
// extension already, a panic, or the end of the call; the author's own error stays in it for the log.
func TestPresentable(t *testing.T) {
	plain, told, panicked := errors.New("secret"), hook.Mark(NotFound("told")), error(&hook.Panic{Value: "oops"})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, as := range map[string]struct {
		do   func(context.Context, error) error
		kind wire.Kind
	}{"Authorize": {AsForbidden, wire.Forbidden}, "check": {AsUpstream, wire.UpstreamError}} {
		for _, err := range []error{nil, told, panicked} {
			if got := as.do(t.Context(), err); got != err {
				t.Errorf("%s: %v became %v", name, err, got)
			}
		}
		if got := as.do(ended, plain); got != context.Canceled {
			t.Errorf("%s: when the call has ended: %v", name, got)
		}
		got := as.do(t.Context(), plain)
		var e *events.Error
		if !errors.As(got, &e) || e.Kind != as.kind || !errors.Is(got, plain) {
			t.Errorf("%s: %v", name, got)
		}
		if o := Object(got, wire.Sketch); strings.Contains(o.Message+string(o.Data), "secret") {
			t.Errorf("%s: the wire has %s %s (ERR-4)", name, o.Message, o.Data)
		}
	}
	if got := Typed(fmt.Errorf("x: %w", told)); !errors.Is(told, got) || got == told {
		t.Errorf("a typed error that was wrapped: %v", got)
	}
	if got := Typed(plain); got != plain {
		t.Errorf("a plain one: %v", got)
	}
}

// Refused params and arguments are named by their paths, whoever found them; of others it is said that they are wrong.
func TestInvalid(t *testing.T) {
	field := events.FieldError{Path: "/a", Message: "is required"}
	for name, row := range map[string]struct {
		got  error
		path string
	}{
		"arguments by schema":  {InvalidArguments(fmt.Errorf("x: %w", &validate.Error{Fields: []events.FieldError{field}})), "/a"},
		"arguments by a field": {InvalidArguments(&wire.FieldErrors{Errors: []events.FieldError{field}}), "/a"},
		"arguments by type":    {InvalidArguments(&events.DecodeError{Pointer: "/b"}), "/b"},
		"arguments otherwise":  {InvalidArguments(io.ErrUnexpectedEOF), ""},
		"params by a field":    {InvalidParams(fmt.Errorf("x: %w", &wire.FieldErrors{Errors: []events.FieldError{field}})), "/a"},
		"params otherwise":     {InvalidParams(io.ErrUnexpectedEOF), ""},
	} {
		var e *events.Error
		if !errors.As(row.got, &e) || e.Kind != wire.InvalidParams {
			t.Errorf("%s: %v", name, row.got)
			continue
		}
		if has := strings.Contains(string(e.Data), `"path":"`+row.path+`"`); !has && row.path != "" || strings.Contains(string(e.Data), "EOF") {
			t.Errorf("%s: %s", name, e.Data)
		}
	}
}

// The log has what the wire has not, once: what was made for the caller and the end of its call are not in it, and the
// stack of a panic only the first time for each place.
func TestInternal(t *testing.T) {
	var out bytes.Buffer
	l := &Log{Logger: slog.New(slog.NewTextHandler(&out, nil))}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	at := hook.Place{Hook: "Match", Event: "e"}
	panicked := func(at hook.Place) error { return &hook.Panic{Place: at, Value: "oops", Stack: []byte("goroutine 7")} }
	for _, row := range []struct {
		name  string
		ctx   context.Context
		err   error
		want  string // in the line, "" for none
		stack bool
	}{
		{"plain", t.Context(), errors.New("secret"), "asking failed", false},
		{"for the caller", t.Context(), events.Forbidden("no"), "", false},
		{"for the caller, by a hook", t.Context(), hook.Mark(events.Forbidden("no")), "", false},
		{"with more behind it", t.Context(), AsForbidden(t.Context(), errors.New("secret")), "secret", false},
		{"internal", t.Context(), events.NewError(wire.Internal, nil), "InternalError", false},
		{"shutdown", t.Context(), ErrShuttingDown, "", false},
		{"the caller went away", ended, fmt.Errorf("x: %w", context.Canceled), "", false},
		{"another end", t.Context(), context.Canceled, "canceled", false},
		{"panic", t.Context(), panicked(at), "panic in Match: oops", true},
		{"panic again", t.Context(), panicked(at), "panic in Match: oops", false},
		{"panic elsewhere", t.Context(), panicked(hook.Place{Hook: "Transform", Event: "e"}), "panic in Transform", true},
	} {
		out.Reset()
		l.Internal(row.ctx, "asking", row.err)
		text := out.String()
		if (text != "") != (row.want != "") || !strings.Contains(text, row.want) || strings.Contains(text, "goroutine 7") != row.stack {
			t.Errorf("%s: %q", row.name, text)
		}
	}
}

// An Unseen error is not one of the extension, whatever it wraps, and says the same.
func TestUnseen(t *testing.T) {
	typed, plain := Unseen{events.Forbidden("told")}, Unseen{io.EOF}
	if errors.As(error(typed), new(*events.Error)) || typed.Error() != typed.Err.Error() {
		t.Errorf("%v is of the extension", typed)
	}
	if !errors.Is(plain, io.EOF) || plain.Error() != "EOF" {
		t.Errorf("%v is not what it was", plain)
	}
}
