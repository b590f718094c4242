// Package tasksourceserver is an experiment: it makes what the result of a tool says of the events of the
// task that it starts (package tasksource). The package makes no promise of compatibility.
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

// Begin makes the source of the events of a task that the call req starts: those of the event type with
// this name and these arguments, from now on. Call it before anything of the task is emitted. It is nil for
// a caller that has not declared the extension. An error says that the caller could not subscribe: an
// *events.Error such as that of an unknown event or of refused arguments. See TASK-1.
//
// When the task has ended, so must its streams: let the type's Authorize hook refuse the arguments of a task
// that is over, and call [server.Server.Reauthorize] when one is.
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
