package events_test

import (
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

func ExampleTime() {
	t, err := events.ParseTime("2026-11-20t08:00:00.500z")
	fmt.Println(t, t.Unix(), err)
	// Output: 2026-11-20t08:00:00.500z 1795161600 <nil>
}

func ExampleOptional() {
	type update struct {
		Assignee events.Optional[string] `json:"assignee,omitzero"`
	}
	for _, u := range []update{{}, {events.Null[string]()}, {events.Some("ann")}} {
		data, err := events.Encode(u)
		fmt.Println(string(data), err)
	}
	// Output:
	// {} <nil>
	// {"assignee":null} <nil>
	// {"assignee":"ann"} <nil>
}

func ExampleDecode() {
	var v struct {
		Items []struct {
			Count int64 `json:"count"`
		} `json:"items"`
	}
	fmt.Println(events.Decode([]byte(`{"items":[{"count":2.0}]}`), &v), v.Items[0].Count)

	err := events.Decode([]byte(`{"items":[{"count":2.5}]}`), &v)
	var where *events.DecodeError
	fmt.Println(errors.As(err, &where), where.Pointer, where.Err)
	// Output:
	// <nil> 2
	// true /items/0/count 2.5 is not an integer
}

func ExampleForbidden() {
	err := error(events.Forbidden("access revoked"))
	fmt.Println(err, errors.Is(err, events.ErrForbidden))
	// Output: Forbidden {"reason":"access revoked"} true
}
