package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// ERR-4: a hook that panics for every occurrence and subscription has its stack in the log once for
// the hook and type, so that the log stays readable.
func TestPanicStackOnce(t *testing.T) {
	var text bytes.Buffer
	s := newServer(t, Options{Logger: slog.New(slog.NewTextHandler(&text, nil))})
	h := Hooks[filterArgs, incident]{Match: func(context.Context, *incident, *filterArgs) bool { panic("oops") }}
	for _, name := range []string{"e", "f"} {
		e := register(t, s, name, h)
		c := poll(t, s, `{"name":"`+name+`"}`).Cursor
		for i := range 3 {
			emit(t, e, incident{ID: fmt.Sprint("x", i)})
		}
		poll(t, s, fmt.Sprintf(`{"name":%q,"cursor":%q}`, name, *c))
	}
	if n := strings.Count(text.String(), "panic in Match: oops"); n != 6 {
		t.Errorf("%d panics are in the log", n)
	}
	if n := strings.Count(text.String(), "stack="); n != 2 || !strings.Contains(text.String(), "TestPanicStackOnce") {
		t.Errorf("%d stacks are in the log of 2 types:\n%s", n, text.String())
	}
}
