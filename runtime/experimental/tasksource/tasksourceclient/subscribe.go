// Package tasksourceclient is an experiment: it subscribes to the events of a task that the result of a tool
// has named (package tasksource). The package makes no promise of compatibility.
package tasksourceclient

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/experimental/tasksource"
)

// Subscribe subscribes to the events of a task by subscribe, the generated Subscribe function of the event
// type with this name:
//
//	sub, err := tasksourceclient.Subscribe(ctx, c, source, builds.BuildProgressEventName, builds.SubscribeBuildProgress)
//
// The subscription begins at the source's cursor, whatever a store holds. The server
// ends it when the task has ended: its iteration ends with a [client.TerminatedError] then, and tasks/get
// tells how the task ended. See TASK-2.
func Subscribe[A, S any](ctx context.Context, c *client.Client, s *tasksource.Source, event string,
	subscribe func(context.Context, *client.Client, A, ...client.SubscribeOption) (S, error), o ...client.SubscribeOption) (S, error) {
	args, err := tasksource.Arguments[A](s, event)
	if err != nil {
		var none S
		return none, err
	}
	begin := client.FromNow()
	if s.InitialCursor != "" {
		begin = client.WithCursor(s.InitialCursor)
	}
	return subscribe(ctx, c, args, append([]client.SubscribeOption{begin}, o...)...)
}
