package waittool

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// waitParams are the arguments of the wait tool.
type waitParams struct {
	polls  []wire.PollParams // without cursors
	cursor *string
	wait   *int64 // in seconds
}

// decodeWait reads the arguments of the wait tool. It takes no member that it does not know: a model that
// misspells one has to hear of it.
func decodeWait(raw json.RawMessage) (*waitParams, error) {
	members, err := toolMembers(raw)
	if err != nil {
		return nil, err
	}
	p := &waitParams{}
	if p.cursor, err = textArgument(members, "cursor"); err != nil {
		return nil, err
	}
	if p.wait, err = waitArgument(members, readtool.WaitArgument); err != nil {
		return nil, err
	}
	limit, err := limitArgument(members, readtool.MaxEventsArgument)
	if err != nil {
		return nil, err
	}
	var list []jsontext.Value
	value, ok := members["events"]
	if !ok || value.Kind() != '[' || json.Unmarshal(value, &list) != nil {
		return nil, wrongArgument("must be an array of {name, arguments?}", "events")
	}
	if n := len(list); n < 1 || n > maxWaited {
		return nil, wrongArgument(fmt.Sprintf("has %d elements, must have 1 to %d", n, maxWaited), "events")
	}
	delete(members, "events")
	for name := range members {
		return nil, wrongArgument("is not an argument of this tool", name)
	}
	for i, value := range list {
		poll, err := decodeWaited(value, strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		poll.MaxEvents = limit
		p.polls = append(p.polls, *poll)
	}
	return p, nil
}

// decodeWaited reads one element of events.
func decodeWaited(value jsontext.Value, index string) (*wire.PollParams, error) {
	var members map[string]jsontext.Value
	if value.Kind() != '{' || json.Unmarshal(value, &members) != nil {
		return nil, wrongArgument("must be an object with name and arguments", "events", index)
	}
	p := &wire.PollParams{}
	name, ok := members["name"]
	if !ok || name.Kind() != '"' || json.Unmarshal(name, &p.Name) != nil {
		return nil, wrongArgument("must be a string", "events", index, "name")
	}
	if a, ok := members["arguments"]; ok && a.Kind() != 'n' {
		if a.Kind() != '{' {
			return nil, wrongArgument("must be an object", "events", index, "arguments")
		}
		p.Arguments = json.RawMessage(a)
	}
	delete(members, "name")
	delete(members, "arguments")
	for other := range members {
		return nil, wrongArgument("is no member of an element of events", "events", index, other)
	}
	return p, nil
}

func wrongArgument(message string, path ...string) error {
	return events.Invalid(events.FieldError{Path: wire.Pointer(path...), Message: message})
}

// toolMembers are the arguments of a tool call in canonical form, so that what stands there twice is refused
// before it is lost in a map.
func toolMembers(raw json.RawMessage) (map[string]jsontext.Value, error) {
	if len(raw) == 0 {
		return nil, nil // absent
	}
	canonical, err := wire.Canonical(raw)
	if err != nil {
		return nil, fault.InvalidArguments(err)
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(canonical, &members); err != nil {
		return nil, events.Invalid(events.FieldError{Message: "must be an object"})
	}
	return members, nil
}

// takeMember takes a member out; null is none.
func takeMember(members map[string]jsontext.Value, name string) (v jsontext.Value, ok bool) {
	v, ok = members[name]
	delete(members, name)
	return v, ok && v.Kind() != 'n'
}

func textArgument(members map[string]jsontext.Value, name string) (*string, error) {
	v, ok := takeMember(members, name)
	if !ok {
		return nil, nil
	}
	var text string
	if json.Unmarshal(v, &text) != nil {
		return nil, wrongArgument("must be a string or null", name)
	}
	return &text, nil
}

func limitArgument(members map[string]jsontext.Value, name string) (*int64, error) {
	v, ok := takeMember(members, name)
	if !ok {
		return nil, nil
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < 1 {
		return nil, wrongArgument("must be an integer of at least 1", name)
	}
	return &n, nil
}

func waitArgument(members map[string]jsontext.Value, name string) (*int64, error) {
	v, ok := takeMember(members, name)
	if !ok {
		return nil, nil
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < 0 || n > readtool.MaxWaitSeconds {
		return nil, wrongArgument(fmt.Sprintf("is %s, must be an integer from 0 to %d", wire.Shown(string(v)), readtool.MaxWaitSeconds), name)
	}
	return &n, nil
}
