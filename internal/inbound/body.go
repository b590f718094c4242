// Package inbound limits the cost of unauthenticated requests: the time to read a body, and the rate of credential
// guesses from an address.
package inbound

import (
	"net/http"
	"time"
)

// Deadline sets a deadline for reading the body of r. If within is not positive, the server's timeout applies. A
// handler must call it first, because net/http itself reads up to 256 KiB of the body of a refused request, both before
// and after writing the response. A handler that keeps a request open must call [Lift] after it has read the body. If
// the request does not have a body, Deadline calls Lift. A shorter ReadTimeout of the server still applies to the body.
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

// Lift removes the deadline after the body has been read. Otherwise, the deadline would cancel the request's context.
func Lift(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }
