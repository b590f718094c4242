// Package tasksourceclient subscribes to the events of a task that was started by a tool (see package tasksource). It
// is an experiment. The package makes no compatibility promise.
package tasksourceclient

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/experimental/tasksource"
)

// Subscribe subscribes to the events of a task. subscribe is the generated Subscribe function of the named event type:
//
//	sub, err := tasksourceclient.Subscribe(ctx, c, source, builds.BuildProgressEventName, builds.SubscribeBuildProgress)
//
// The subscription begins at the cursor of the source, even if a store contains another cursor. When the task ends, the
// server ends the subscription. The iteration then ends with a [client.TerminatedError], and tasks/get returns the
// outcome of the task. See TASK-2.
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
