package admin

import "net/http"

// Routes are the methods and paths that a handler of NewHandler serves.
func Routes(h http.Handler) []string { return h.(*handler).paths }
