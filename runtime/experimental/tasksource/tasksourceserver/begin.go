// Package tasksourceserver creates the event source for the result of a tool that starts a task (see package
// tasksource). It is an experiment. The package makes no promise of compatibility.
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

// Begin returns the source of the events of a task that the call req starts. These are the events of the
// named type with the given arguments, from now on. Call it before emitting any event of the task. It
// returns nil if the caller has not declared the extension. An error means that the caller cannot subscribe:
// it is an *events.Error, for example for an unknown event or invalid arguments. See TASK-1.
//
// The streams must end with the task: let the type's Authorize hook refuse the arguments of a finished task,
// and call [server.Server.Reauthorize] when a task finishes.
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
