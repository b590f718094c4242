// Package tasksource implements the working group's proposal "task event sources". With it, the result of
// a tool that starts a task names the event type whose events report on that task. The package is an
// experiment: it may change with the proposal or be removed. The package makes no promise of
// compatibility.
//
// A server creates a [Source] with package tasksourceserver and sends it as the member eventSource of its
// CreateTaskResult. A client parses it with [Parse] and subscribes with package tasksourceclient. Both use
// the types of a generated package.
package tasksource

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Member is the name of the CreateTaskResult member that holds a [Source].
const Member = "eventSource"

// maxCursor bounds a cursor in bytes, with the limit of clients.
const maxCursor = 64 << 10

// A Source describes the subscription that reports on a task. See TASK-1.
type Source struct {
	// Name is the event type's name.
	Name string `json:"name"`
	// Input is the object of the subscription's arguments.
	Input json.RawMessage `json:"input"`
	// InitialCursor is the position before the task's events; "" means from now.
	InitialCursor string `json:"initialCursor,omitempty"`
}

// New returns the source of a type's events after cursor, with these arguments. It does not check the
// type: servers use package tasksourceserver, which does.
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

// Parse parses the source in a raw CreateTaskResult. It returns nil if the result has none.
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

// Arguments decodes the arguments for the named event type. An argument unknown to A is an error: without
// it, the subscription would match more than the task. See TASK-2.
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
	if err := known(s.Input, args); err != nil {
		return args, fmt.Errorf("task source: input of %s: %w", event, err)
	}
	return args, nil
}

// known returns an error if args did not keep a non-null member of input.
func known(input json.RawMessage, args any) error {
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
