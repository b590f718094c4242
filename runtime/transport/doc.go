// Package transport carries the MCP Events extension over the transports of the official Go SDK. It works around limits
// of the SDK, which cannot send notifications of an extension, keep a response open for a custom method, echo a request
// ID byte for byte, or end a held call when its client disconnects. So this package answers the extension's calls
// itself, through the receiving middleware of the SDK's server, and leaves everything else to the SDK.
//
// A Streamable HTTP server mounts [NewHandler]; a stdio server calls [Run] (or connects through [Wrap]). Both take the
// event server, which knows its mcp.Server. Both serve the legacy revisions, which start with initialize, and the
// stateless revision 2026-07-28 side by side.
//
// Reading order: events.go answers a call of the extension. handler.go routes HTTP requests after the checks of
// origins.go; httpevents.go accepts the calls and carries streams; session.go implements the legacy sessions; notify.go
// handles cancels and other notifications; listen.go and announce.go send list_changed to HTTP clients. conn.go and
// conncall.go do the same for message-based connections, on top of outbox.go, which writes, and lines.go, which reads
// and writes newline-delimited JSON.
package transport
