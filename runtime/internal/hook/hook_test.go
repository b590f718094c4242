package hook

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A WithPrincipal context that asks for nobody has nobody.
func TestWithPrincipal(t *testing.T) {
	ctx := WithPrincipal(t.Context(), "ann")
	if Principal(ctx) != "ann" || Principal(WithPrincipal(ctx, "")) != "" || WithPrincipal(ctx, "ann") != ctx {
		t.Error("WithPrincipal keeps somebody else")
	}
	ended, cancel := context.WithCancelCause(t.Context())
	derived, stop := context.WithCancel(Impersonal{Context: ended})
	defer stop()
	cancel(errors.New("gone"))
	<-derived.Done()
	if !errors.Is(Impersonal{Context: ended}.Err(), context.Canceled) {
		t.Error("an impersonal context does not end")
	}
}

// A panic is an error with its stack; an error of the extension is marked as the hook's own, another
// one is left alone (ERR-4).
func TestRun(t *testing.T) {
	at := Place{Hook: "Match", Event: "e"}
	var p *Panic
	if err := at.Run(func() error { panic("oops") }); !errors.As(err, &p) || p.Place != at || p.Value != "oops" ||
		!strings.Contains(string(p.Stack), "TestRun") || err.Error() != "panic in Match: oops" {
		t.Errorf("%v", err)
	}
	told := events.Forbidden("told")
	var marked *Error
	if err := at.Run(func() error { return told }); !errors.As(err, &marked) || !errors.Is(err, told) || err.Error() != told.Error() {
		t.Errorf("%v", err)
	}
	plain := errors.New("plain")
	if err := at.Run(func() error { return plain }); err != plain {
		t.Errorf("%v", err)
	}
}
