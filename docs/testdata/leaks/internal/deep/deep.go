// Package deep is internal.
package deep

type Server struct{}

func (*Server) Run() {}
