// Package inbound bounds what a request costs before its caller is known: how long its body may take to arrive, and how
// often an address may guess at a credential.
package inbound

import (
	"net/http"
	"time"
)

// Deadline gives the body of r so long to arrive, from now on; 0 or less leaves that to the server. It comes first in
// a handler: of a request that is refused net/http itself reads up to 256 KiB of the body, before it writes the
// answer and again after it. Who holds a request open calls [Lift] once the body is read; where there is no body it
// is lifted already. A shorter ReadTimeout of the server's stays in force for the body.
func Deadline(w http.ResponseWriter, r *http.Request, within time.Duration) {
	srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		Lift(w)
	case within > 0 && (srv == nil || srv.ReadTimeout <= 0 || within < srv.ReadTimeout):
		// Writers without deadlines say so; then the time is for whoever configures them.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within))
	}
}

// Lift lifts the deadline of a body that is read, which would cancel the request's context.
func Lift(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }
