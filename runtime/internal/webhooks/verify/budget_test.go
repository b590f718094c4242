package verify

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// VER-3: who waited in vain for others' outcomes is not told of failures (S6).
func TestVER3Undecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b failureBudget
		var finish []func(bool)
		for _, principal := range []string{"ann", "eve"} {
			f, err := b.reserve(t.Context(), principal, "host", 1)
			if err != nil {
				t.Fatal(err)
			}
			finish = append(finish, f)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reason := func(err error) string { return fault.Object(err, wire.Sketch).Message }
		_, err := b.reserve(ctx, "bob", "host", 1)
		if got, want := reason(err), "ResourceExhausted: too many verifications are under way"; got != want {
			t.Errorf("in vain: %q, want %q", got, want)
		}
		for _, f := range finish {
			f(false)
		}
		_, err = b.reserve(t.Context(), "bob", "host", 1)
		if got, want := reason(err), "ResourceExhausted: too many failed verifications of this host, by other callers"; got != want {
			t.Errorf("after a failure: %q, want %q", got, want)
		}
	})
}
