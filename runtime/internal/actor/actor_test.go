package actor

import (
	"context"
	"strings"
	"testing"
)

// SRV-8: who asks is known where it is done, with a bounded name, and somebody always asks.
func TestSRV8Actor(t *testing.T) {
	ctx := t.Context()
	for name, want := range map[string]string{"olga": "olga", "": Nobody, strings.Repeat("ö", 200): strings.Repeat("ö", 128)} {
		if got := Of(context.WithoutCancel(With(ctx, name))); got != want {
			t.Errorf("%q asks as %q", name, got)
		}
	}
	if got := Of(ctx); got != Nobody {
		t.Errorf("%q", got)
	}
}
