package conform

import (
	"context"
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var errorChecks = []check{
	{id: "CAP-2", title: "an unknown method is MethodNotFound", run: checkUnknownMethod},
	{id: "POLL-1", title: "a poll without a name is InvalidParams", needs: needPoll, run: unnamed(wire.MethodPoll)},
	{id: "POLL-1", title: "a poll of an unknown event type is NotFound",
		needs: needPoll, run: unknownEvent(wire.MethodPoll)},
	{id: "POLL-1", title: "a poll with arguments that do not fit is InvalidParams",
		needs: needPoll, run: unfitArguments(wire.MethodPoll)},
	{id: "POLL-6", title: "a poll of a type without poll is Unsupported",
		run: otherMode(wire.MethodPoll, wire.ModePoll)},
	{id: "PUSH-1", title: "a stream without a name is InvalidParams", needs: needPush, run: unnamed(wire.MethodStream)},
	{id: "PUSH-1", title: "a stream of an unknown event type is NotFound, and no stream",
		needs: needPush, run: unknownEvent(wire.MethodStream)},
	{id: "PUSH-1", title: "a stream with arguments that do not fit is InvalidParams",
		needs: needPush, run: unfitArguments(wire.MethodStream)},
	{id: "LIST-3", title: "a stream of a type without push is Unsupported",
		run: otherMode(wire.MethodStream, wire.ModePush)},
}

// lastChecks examine the whole run.
var lastChecks = []check{
	{id: "D2", title: "all errors are of one family of codes", run: checkFamily},
}

const noSuchEvent = "mcpe-gen.conform.no-such-event"

// sendInvalid sends a request that the server must reject. For a stream, the first message is the response. If the
// stream opens anyway, sendInvalid closes it and returns a violation.
func (r *run) sendInvalid(ctx context.Context, method string, params map[string]any) (*exchange, error) {
	if method != wire.MethodStream {
		return r.call(ctx, method, params)
	}
	f, x, err := r.firstMessage(ctx, request{id: r.nextID(), method: method, params: params})
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
