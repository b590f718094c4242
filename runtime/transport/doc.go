// Package transport carries the MCP Events extension over the transports of the official Go SDK.
// It is the one place that knows what the SDK cannot do by itself: send notifications of an
// extension, keep a response open for a custom method, echo a request id byte for byte, end a held
// call when its client goes away.
//
// A server that speaks Streamable HTTP mounts [NewHandler]; one that speaks stdio calls [Run]
// (or connects through [Wrap]). Both take the event server, which knows its mcp.Server, and both serve
// the legacy revisions, which begin with initialize, and the stateless revision 2026-07-28 side by side.
//
// Reading order: handler.go routes HTTP requests, behind origins.go; notify.go carries out cancels and other
// notifications; stream.go opens and writes an events/stream over
// HTTP, with session.go for what a legacy session adds; direct.go is the optional short way for
// events/list and events/poll; listen.go and announce.go bring list_changed to HTTP clients. conn.go
// is the same for message-based connections, above outbox.go, which writes, and lines.go, which
// reads and writes newline-delimited JSON.
package transport
