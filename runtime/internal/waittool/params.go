package waittool

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// waitParams holds the arguments of the wait tool.
type waitParams struct {
	polls  []wire.PollParams // without cursors
	cursor *string
	waitArguments
}

// waitArguments holds the arguments that control the wait.
type waitArguments struct {
	wait  *time.Duration
	quiet time.Duration
	since *topic.Since
}

// A waitNames holds the names of the arguments that control the wait. An empty name means that the tool does not have
// the argument.
type waitNames struct{ cursor, wait, quiet, since string }

// decode decodes the arguments that control the wait and removes them from members. cursor is the decoded cursor, and
// wait is the default wait time.
func (a *waitArguments) decode(members map[string]jsontext.Value, n waitNames, cursor *string, wait time.Duration) (err error) {
	if a.wait, err = secondsArgument(members, n.wait); err != nil {
		return err
	}
	quiet, err := secondsArgument(members, n.quiet)
	if err != nil {
		return err
	}
	if a.since, err = sinceArgument(members, n.since); err != nil {
		return err
	}
	if a.since != nil && cursor != nil {
		return wrongArgument("cannot be beside "+n.cursor+": a cursor is where to go on", n.since)
	}
	if a.wait != nil {
		wait = *a.wait
	}
	if quiet != nil {
		a.quiet = *quiet
	}
	if a.quiet > 0 && wait == 0 {
		return wrongArgument("needs "+n.wait+" of at least 1: that is how long the call may go on for what follows", n.quiet)
	}
	return nil
}

// decodeWait decodes the arguments of the wait tool. It rejects unknown members, so that a model can detect a
// misspelled name.
func decodeWait(raw json.RawMessage) (*waitParams, error) {
	members, err := toolMembers(raw)
	if err != nil {
		return nil, err
	}
	p := &waitParams{}
	if p.cursor, err = textArgument(members, "cursor"); err != nil {
		return nil, err
	}
	names := waitNames{toolschema.CursorArgument, toolschema.WaitArgument, toolschema.QuietArgument, toolschema.SinceArgument}
	if err := p.decode(members, names, p.cursor, defaultWait); err != nil {
		return nil, err
	}
	limit, err := limitArgument(members, toolschema.MaxEventsArgument)
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

// decodeWaited decodes one element of the events argument.
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

// toolMembers decodes the arguments of a tool call. It converts them to canonical form first, which rejects duplicate
// members.
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

// takeMember removes a member and returns it. A null member is treated as absent.
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

// secondsArgument decodes a number of seconds. It returns nil if the caller did not set the argument or the tool does
// not have it.
func secondsArgument(members map[string]jsontext.Value, name string) (*time.Duration, error) {
	if name == "" {
		return nil, nil
	}
	v, ok := takeMember(members, name)
	if !ok {
		return nil, nil
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < 0 || n > toolschema.MaxWaitSeconds {
		return nil, wrongArgument(fmt.Sprintf("is %s, must be an integer from 0 to %d", wire.Shown(string(v)), toolschema.MaxWaitSeconds), name)
	}
	d := time.Duration(n) * time.Second
	return &d, nil
}

// sinceArgument decodes a duration or a time in the past. It returns nil if the caller did not set the argument or the
// tool does not have it.
func sinceArgument(members map[string]jsontext.Value, name string) (*topic.Since, error) {
	if name == "" {
		return nil, nil
	}
	given, err := textArgument(members, name)
	if err != nil || given == nil {
		return nil, err
	}
	text := *given
	if age, err := time.ParseDuration(text); err == nil {
		if age <= 0 {
			return nil, wrongArgument("is "+wire.Shown(text)+", must be more than 0", name)
		}
		return &topic.Since{Age: age}, nil
	}
	at, err := events.ParseTime(text)
	if err != nil {
		return nil, wrongArgument("is "+wire.Shown(text)+`, must be a duration such as "10m" or "1h30m", or an RFC 3339 date-time`, name)
	}
	if now := time.Now(); at.After(now) {
		return nil, wrongArgument("is "+wire.Shown(text)+", after the server's time "+events.NewTime(now.UTC().Truncate(time.Millisecond)).String(), name)
	}
	return &topic.Since{At: at.Time}, nil
}
