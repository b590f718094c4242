// Package tasksource implements the working group's proposal "task event sources". With this proposal, the result of a
// tool that starts a task specifies an event type that reports on the task. The package is an experiment, which may
// change with the proposal or be removed. The package makes no compatibility promise.
//
// A server creates a [Source] with package tasksourceserver and sends it as the eventSource member of its
// CreateTaskResult. A client parses it with [Parse] and subscribes with package tasksourceclient. Both use the types of
// a generated package.
package tasksource

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Member is the name of the CreateTaskResult member that contains a [Source].
const Member = "eventSource"

// maxCursor is the maximum size of a cursor in bytes, which is the same as in clients.
const maxCursor = 64 << 10

// A Source describes the subscription that reports on a task. See TASK-1.
type Source struct {
	// Name is the name of the event type.
	Name string `json:"name"`
	// Input contains the subscription's arguments as a JSON object.
	Input json.RawMessage `json:"input"`
	// InitialCursor is the position before the task's events; "" means the current position.
	InitialCursor string `json:"initialCursor,omitempty"`
}

// New returns a source for the events of a type after cursor, with the given arguments. It does not check the type. On
// a server, use package tasksourceserver, which does.
func New[A any](event string, args A, cursor string) (*Source, error) {
	input, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("task source: arguments of %s: %w", event, err)
	}
	if string(input) == "null" {
		input = []byte("{}")
	}
	s := &Source{Name: event, Input: input, InitialCursor: cursor}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("task source: %w", err)
	}
	return s, nil
}

// Parse parses the source in a raw CreateTaskResult. It returns nil if the result does not contain a source.
func Parse(result []byte) (*Source, error) {
	members, err := wire.DecodeMembers(result)
	if err != nil {
		return nil, fmt.Errorf("task source: result: %w", err)
	}
	raw := members[Member]
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	s := &Source{}
	if err = wire.Decode(raw, s); err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, fmt.Errorf("task source: %s: %w", Member, err)
	}
	return s, nil
}

func (s *Source) check() error {
	switch {
	case s.Name == "":
		return errors.New("name is missing")
	case len(s.Input) == 0 || s.Input[0] != '{':
		return errors.New("input is not an object")
	case len(s.InitialCursor) > maxCursor:
		return fmt.Errorf("initialCursor has %d bytes, more than %d", len(s.InitialCursor), maxCursor)
	}
	return nil
}

// Arguments decodes the arguments for the named event type. It returns an error for an argument that A does not have,
// because without it the subscription would match events of other tasks. See TASK-2.
func Arguments[A any](s *Source, event string) (args A, err error) {
	if s.Name != event {
		return args, fmt.Errorf("task source: its event type is %q, want %q", codec.Clip(s.Name), event)
	}
	if raw, ok := any(&args).(*json.RawMessage); ok {
		*raw = s.Input
		return args, nil
	}
	if err := codec.Decode(s.Input, &args); err != nil {
		return args, fmt.Errorf("task source: input of %s: %w", event, err)
	}
	if err := checkArguments(s.Input, args); err != nil {
		return args, fmt.Errorf("task source: input of %s: %w", event, err)
	}
	return args, nil
}

// checkArguments returns an error if a non-null member of input is missing in args.
func checkArguments(input json.RawMessage, args any) error {
	given, err := wire.DecodeMembers(input)
	if err != nil {
		return err
	}
	text, err := json.Marshal(args)
	if err != nil {
		return err
	}
	kept, err := wire.DecodeMembers(text)
	if err != nil {
		return err
	}
	for name, raw := range given {
		if _, ok := kept[name]; !ok && string(raw) != "null" {
			return fmt.Errorf("the argument %q is unknown", codec.Clip(name))
		}
	}
	return nil
}
