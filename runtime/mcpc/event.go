package mcpc

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
)

// A record is a message in the log of mcpc.task, together with the principal of its task.
type record struct {
	task.Message
	Owner string
}

// ownerMember is the name of a record's member for the principal. The member is never sent to clients.
const ownerMember = "owner"

var taskEvent = events.Type[task.Arguments, record]{Info: task.Event.Info}

// MarshalJSON encodes the message and, if set, the owner.
func (r record) MarshalJSON() ([]byte, error) {
	b, err := r.Message.MarshalJSON()
	if err != nil || r.Owner == "" {
		return b, err
	}
	name, err := json.Marshal(r.Owner)
	if err != nil {
		return nil, err
	}
	b = append(b[:len(b)-1], `,"`+ownerMember+`":`...)
	return append(append(b, name...), '}'), nil
}

// UnmarshalJSON decodes the output of MarshalJSON.
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

// authorize rejects a subscription without a task id if the caller has no principal. Otherwise, each such caller could
// read the messages of all tasks without a principal. A task id protects the messages, because clients choose ids that
// cannot be guessed.
func (a *Adapter) authorize(_ context.Context, principal string, args *task.Arguments) error {
	if principal == "" && args.TaskID == "" && !a.o.OpenTasks {
		return events.Forbidden("name the task by task_id, or authenticate")
	}
	return nil
}

// publish emits a task's message as an occurrence. The task continues even if the log fails.
func (a *Adapter) publish(ctx context.Context, m task.Message, principal string) {
	err := a.emitter.Emit(context.WithoutCancel(ctx), record{m, principal})
	if err != nil && !errors.Is(err, events.ErrClosed) {
		a.o.Logger.WarnContext(ctx, "mcpc: a task's message is missing from mcpc.task", "tool", m.ToolName, "event", m.Event, "error", err)
	}
}
