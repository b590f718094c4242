package part

import (
	"cmp"
	"context"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// A Connection is an open stream or a poller between two polls.
type Connection interface {
	// Info describes the connection, without ID and Behind.
	Info() operator.Connection
	// Refused calls the author's hooks for the connection and returns their error, or nil if they allow it.
	Refused(ctx context.Context) *events.Error
	// Terminate ends a stream or the polls in flight of a poller with the error.
	Terminate(e *events.Error)
}

// Belongs reports whether a connection belongs to the principal and to one of the named event types. If names is empty,
// all event types match.
func Belongs(c Connection, principal string, names []string) bool {
	i := c.Info()
	return i.Principal == principal && (len(names) == 0 || slices.Contains(names, i.Event))
}

// Revoke ends the principal's connections to the named event types.
func Revoke[C Connection](ctx context.Context, all []C, principal string, names []string) {
	for _, c := range all {
		if Belongs(c, principal, names) {
			c.Terminate(cmp.Or(c.Refused(ctx), fault.Revoked()))
		}
	}
}

// Recheck calls the author's hooks for the selected connections and ends the connections that the hooks refuse.
func Recheck[C Connection](ctx context.Context, all []C, pick func(C) bool) {
	for _, c := range all {
		if !pick(c) {
			continue
		}
		if e := c.Refused(ctx); e != nil {
			c.Terminate(e)
		}
	}
}

// Hide ends the connections to hidden event types.
func Hide[C Connection](all []C, hidden func(principal, event string) bool) {
	for _, c := range all {
		if i := c.Info(); hidden(i.Principal, i.Event) {
			c.Terminate(fault.NotFound("event"))
		}
	}
}
