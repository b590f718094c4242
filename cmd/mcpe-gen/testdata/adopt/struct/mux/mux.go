// Package mux is a router with the methods of chi's.
package mux

import "net/http"

// A Router is an http.Handler.
type Router struct{ http.ServeMux }

// NewRouter returns a Router without routes.
func NewRouter() *Router { return &Router{} }

// Get adds a route for GET.
func (r *Router) Get(path string, h http.HandlerFunc) { r.Handle("GET "+path, h) }

// Mount adds a handler for all paths below one.
func (r *Router) Mount(path string, h http.Handler) {
	r.Handle(path+"/", http.StripPrefix(path, h))
}
