package conform

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var errorChecks = []check{
	{name: "method-unknown", id: "CAP-2", title: "An unknown method fails with MethodNotFound", run: checkUnknownMethod},
}

// lastChecks examine the whole run.
var lastChecks = []check{
	{name: "error-family", id: "D2", title: "All errors use one family of codes", run: checkFamily},
}

// checkUnknownMethod calls an unknown method with the extension's prefix and one without it (JSON-RPC 2.0, section
// 5.1).
func checkUnknownMethod(ctx context.Context, r *run) error {
	for _, method := range []string{wire.MethodPrefix + "mcpe-gen-conform", "mcpe-gen-conform"} {
		x, err := r.call(ctx, method, map[string]any{})
		if err != nil {
			return err
		}
		if err := r.expectError(x, wire.MethodNotFound); err != nil {
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
