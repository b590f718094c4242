package mcpc

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
)

// A record is a message in the log of mcpc.task with the principal of its task.
type record struct {
	task.Message
	Owner string
}

// owner is the member of a record that never leaves the server.
const owner = "owner"

var taskEvent = events.Type[task.Arguments, record]{Info: task.Event.Info}

// MarshalJSON writes the message, and the owner where there is one.
func (r record) MarshalJSON() ([]byte, error) {
	b, err := r.Message.MarshalJSON()
	if err != nil || r.Owner == "" {
		return b, err
	}
	name, err := json.Marshal(r.Owner)
	if err != nil {
		return nil, err
	}
	b = append(b[:len(b)-1], `,"`+owner+`":`...)
	return append(append(b, name...), '}'), nil
}

// UnmarshalJSON reads what MarshalJSON has written.
func (r *record) UnmarshalJSON(b []byte) error {
	var head struct {
		Owner string `json:"owner"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return err
	}
	r.Owner = head.Owner
	return r.Message.UnmarshalJSON(b)
}

// authorize asks those without a principal for the id of a task: the ids that clients mint cannot be
// guessed, and without it everybody would read everybody's tasks.
func (a *Adapter) authorize(_ context.Context, principal string, args *task.Arguments) error {
	if principal == "" && args.TaskID == "" && !a.o.OpenTasks {
		return events.Forbidden("name the task by task_id, or authenticate")
	}
	return nil
}

// publish makes an occurrence of a task's message. It is beside the way to the caller: a log that
// fails does not stop the task.
func (a *Adapter) publish(ctx context.Context, m task.Message, principal string) {
	err := a.emitter.Emit(context.WithoutCancel(ctx), record{m, principal})
	if err != nil && !errors.Is(err, events.ErrClosed) {
		a.o.Logger.WarnContext(ctx, "mcpc: a task's message is missing from mcpc.task", "tool", m.ToolName, "event", m.Event, "error", err)
	}
}
