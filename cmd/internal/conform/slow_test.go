package conform

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/wrongserver"
)

// A right server passes all slow checks, and one that is started anew with all that it had those of a restart.
func TestSlowRight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := wrong(t, wrongserver.Fault{Webhook: true, Slow: true})
		o.restart = func(context.Context) error { return nil }
		o.selectsCheck = func(c check) bool { return c.needs&(needSlow|needRestart) != 0 || c.name == "subscribe" }
		tried := 0
		for _, f := range judge(t, o).Findings {
			if f.Outcome != verdict.Pass {
				t.Errorf("%+v", f)
			}
			tried++
		}
		if tried < len(slowChecks)+len(restartChecks) {
			t.Errorf("%d findings", tried)
		}
	})
}
