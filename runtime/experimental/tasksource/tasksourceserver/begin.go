// Package tasksourceserver creates event sources for the results of tools that start tasks (see package tasksource). It
// is an experiment. The package makes no compatibility promise.
package tasksourceserver

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/experimental/tasksource"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// Begin returns an event source for a task that is started by the tool call req. The source describes future events of
// the given type with the given arguments. Call Begin before emitting any event of the task. It returns nil if the
// caller has not declared the extension. It returns an error that wraps an *events.Error if the caller cannot
// subscribe, for example because the event is unknown or the arguments are invalid. See TASK-1.
//
// The streams must end with the task. To end them, make the type's Authorize hook reject the arguments of a finished
// task, and call [server.Server.Reauthorize] when a task finishes.
func Begin[A any](ctx context.Context, es *server.Server, req *mcp.CallToolRequest, event string, args A) (*tasksource.Source, error) {
	c := req.ClientCapabilities()
	if c == nil {
		return nil, nil
	}
	if _, declared := c.Extensions[wire.ExtensionID]; !declared {
		return nil, nil
	}
	p := port.Of(es)
	s, err := tasksource.New(event, args, p.Head(event))
	if err != nil {
		return nil, err
	}
	if err := p.MayFollow(ctx, p.CallerOf(ctx, req).Principal, event, s.Input); err != nil {
		return nil, fmt.Errorf("task source: %s: %w", event, err)
	}
	return s, nil
}
