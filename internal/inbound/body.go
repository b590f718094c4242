// Package inbound limits the cost of a request before its caller is known: the time for its body to arrive, and the
// rate of credential guesses from an address.
package inbound

import (
	"net/http"
	"time"
)

// Deadline sets a deadline for reading the body of r. If within is 0 or less, the server's timeout applies. Call it
// first in a handler, because net/http itself reads up to 256 KiB of the body of a refused request, both before and
// after writing the response. A handler that holds a request open calls [Lift] once it has read the body; for a
// request without a body, Deadline calls Lift. A shorter ReadTimeout of the server still applies to the body.
func Deadline(w http.ResponseWriter, r *http.Request, within time.Duration) {
	srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		Lift(w)
	case within > 0 && (srv == nil || srv.ReadTimeout <= 0 || within < srv.ReadTimeout):
		// An error means that the writer has no deadlines; then the server's configuration must limit the time.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within))
	}
}

// Lift removes the deadline once the body is read. Otherwise it would cancel the request's context.
func Lift(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }
