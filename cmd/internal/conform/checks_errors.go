package conform

import (
	"context"
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var errorChecks = []check{
	{name: "method-unknown", id: "CAP-2", title: "An unknown method fails with MethodNotFound", run: checkUnknownMethod},
	{name: "poll-name-missing", id: "POLL-1", title: "A poll without a name fails with InvalidParams", needs: needPoll, run: unnamed(wire.MethodPoll)},
	{name: "poll-name-unknown", id: "POLL-1", title: "A poll of an unknown event type fails with NotFound",
		needs: needPoll, run: unknownEvent(wire.MethodPoll)},
	{name: "poll-arguments", id: "POLL-1", title: "A poll with invalid arguments fails with InvalidParams",
		needs: needPoll, run: unfitArguments(wire.MethodPoll)},
	{name: "poll-unsupported", id: "POLL-6", title: "A poll of a type without poll fails with Unsupported",
		run: otherMode(wire.MethodPoll, wire.ModePoll)},
	{name: "stream-name-missing", id: "PUSH-1", title: "A stream without a name fails with InvalidParams", needs: needPush, run: unnamed(wire.MethodStream)},
	{name: "stream-name-unknown", id: "PUSH-1", title: "A stream of an unknown event type fails with NotFound and does not begin",
		needs: needPush, run: unknownEvent(wire.MethodStream)},
	{name: "stream-arguments", id: "PUSH-1", title: "A stream with invalid arguments fails with InvalidParams",
		needs: needPush, run: unfitArguments(wire.MethodStream)},
	{name: "stream-unsupported", id: "LIST-3", title: "A stream of a type without push fails with Unsupported",
		run: otherMode(wire.MethodStream, wire.ModePush)},
}

// lastChecks examine the whole run.
var lastChecks = []check{
	{name: "error-family", id: "D2", title: "All errors use one family of codes", run: checkFamily},
}

const noSuchEvent = "mcpe-gen.conform.no-such-event"

// sendInvalid sends a request that the server must reject. For a stream, the first message is the response. If the
// stream opens anyway, sendInvalid closes it and returns a violation.
func (r *run) sendInvalid(ctx context.Context, method string, params map[string]any) (*exchange, error) {
	if method != wire.MethodStream {
		return r.call(ctx, method, params)
	}
	f, x, err := r.firstMessage(ctx, request{method: method, params: params})
	if err != nil {
		return x, err
	}
	f.stop()
	if !x.answer.isResponse() {
		return x, x.violation("an error and no stream", "%s", wire.Shown(x.answer.method))
	}
	return x, nil
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

func unnamed(method string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		for _, params := range []map[string]any{{}, {"name": 5}} {
			x, err := r.sendInvalid(ctx, method, params)
			if err != nil {
				return err
			}
			if err := r.expectError(x, wire.InvalidParams); err != nil {
				return err
			}
		}
		return nil
	}
}

func unknownEvent(method string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		x, err := r.sendInvalid(ctx, method, map[string]any{"name": noSuchEvent, "arguments": map[string]any{}})
		if err != nil {
			return err
		}
		return r.expectErrorData(x, wire.NotFound, map[string]string{"kind": "event"})
	}
}

func unfitArguments(method string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		s := r.poll
		if method == wire.MethodStream {
			s = r.push
		}
		if s.invalid == nil {
			return skipf("the inputSchema of %s takes any arguments", s.Name)
		}
		for _, args := range append([]json.RawMessage{json.RawMessage(`"text"`)}, s.invalid...) {
			x, err := r.sendInvalid(ctx, method, map[string]any{"name": s.Name, "arguments": args})
			if err != nil {
				return err
			}
			if err := r.expectError(x, wire.InvalidParams); err != nil {
				return err
			}
		}
		return nil
	}
}

func otherMode(method, mode string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		s := r.typeWithout(mode)
		if s == nil {
			return skipf("every event type offers %s", mode)
		}
		x, err := r.sendInvalid(ctx, method, s.params(nil))
		if err != nil {
			return err
		}
		return r.expectErrorData(x, wire.Unsupported, map[string]string{"feature": "deliveryMode", "value": mode})
	}
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
