package conform

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var errorChecks = []check{
	{name: "method-unknown", id: "CAP-2", title: "An unknown method fails with MethodNotFound", run: checkUnknownMethod},
}

// lastChecks examine the whole run.
var lastChecks = []check{
	{name: "poll-cursor-evicted", id: "CUR-7", title: "A poll returns every event after an early cursor, or sets truncated", needs: needPoll | needOccurred | needReplay, run: lateAgain("poll-repeat", checkAgain)},
	{name: "stream-cursor-evicted", id: "CUR-7", title: "A stream sends every event after an early cursor, or sets truncated", needs: needPush | needOccurred, run: lateAgain("stream-replay", checkReplay)},
	{name: "error-family", id: "D2", title: "All errors use one family of codes", run: checkFamily},
}

// errForgotten is the reason to skip a check of events that the server no longer retains.
const errForgotten = verdict.Skipped("retention has forgotten what came first")

// lateAgain returns a check that repeats a check of the first events, unless that has failed. It also passes if the server
// has forgotten them.
func lateAgain(name string, try func(context.Context, *run) error) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if r.failed[name] {
			return skipf("%s has failed", name)
		}
		err := try(ctx, r)
		if err == errForgotten {
			return nil
		}
		return err
	}
}

// checkUnknownMethod calls an unknown method with the extension's prefix and one without it (JSON-RPC 2.0, section
// 5.1).
func checkUnknownMethod(ctx context.Context, r *run) error {
	for _, method := range []string{wire.MethodPrefix + "mcpe-gen-conform", "mcpe-gen-conform"} {
		if err := r.expectCallError(ctx, method, map[string]any{}, wire.MethodNotFound); err != nil {
			return err
		}
	}
	return nil
}

func checkFamily(_ context.Context, r *run) error {
	sketch, sep := r.errorsByFamily[wire.Sketch], r.errorsByFamily[wire.SEP]
	switch {
	case sketch == nil && sep == nil:
		return skipf("no error came that tells the families apart")
	case sketch != nil && sep != nil:
		return sep.violation("codes of one family", "%d here and %d elsewhere", sep.answer.err.Code, sketch.answer.err.Code)
	}
	return nil
}
