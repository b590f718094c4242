package events_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
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
		data, err := json.Marshal(u)
		fmt.Println(string(data), err)
	}
	// Output:
	// {} <nil>
	// {"assignee":null} <nil>
	// {"assignee":"ann"} <nil>
}

func ExampleDecodeError() {
	var p tickets.TicketCreatedPayload
	err := json.Unmarshal([]byte(`{"ticketId":"T-1","title":"","severity":"low","openedAt":"yesterday"}`), &p)
	var where *events.DecodeError
	fmt.Println(errors.As(err, &where), where.Pointer)
	fmt.Println(where.Err)
	// Output:
	// true /openedAt
	// events: "yesterday" is not an RFC 3339 date-time
}

func ExampleForbidden() {
	err := error(events.Forbidden("access revoked"))
	fmt.Println(err, errors.Is(err, events.ErrForbidden))
	// Output: Forbidden {"reason":"access revoked"} true
}
