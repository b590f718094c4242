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

// owner is the member of a record that holds the principal; it never leaves the server.
const owner = "owner"

var taskEvent = events.Type[task.Arguments, record]{Info: task.Event.Info}

// MarshalJSON encodes the message, and the owner if there is one.
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

// UnmarshalJSON decodes the form of MarshalJSON.
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

// authorize requires a task id from callers without a principal. Clients choose ids that cannot be guessed; without
// this rule every such caller could read everyone's tasks.
func (a *Adapter) authorize(_ context.Context, principal string, args *task.Arguments) error {
	if principal == "" && args.TaskID == "" && !a.o.OpenTasks {
		return events.Forbidden("name the task by task_id, or authenticate")
	}
	return nil
}

// publish emits a task's message as an occurrence. A failing log does not stop the task.
func (a *Adapter) publish(ctx context.Context, m task.Message, principal string) {
	err := a.emitter.Emit(context.WithoutCancel(ctx), record{m, principal})
	if err != nil && !errors.Is(err, events.ErrClosed) {
		a.o.Logger.WarnContext(ctx, "mcpc: a task's message is missing from mcpc.task", "tool", m.ToolName, "event", m.Event, "error", err)
	}
}
