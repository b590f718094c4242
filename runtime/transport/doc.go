// Package transport implements the MCP Events extension on the transports of the official Go SDK. It works around
// limits of the SDK. The SDK cannot send extension notifications, keep a response open for a custom method, or repeat a
// request ID byte for byte. It also cannot end a waiting call when the client disconnects. Therefore, this package
// answers the extension's calls itself, through the receiving middleware of the SDK's server. It passes all other
// messages to the SDK.
//
// A Streamable HTTP server mounts [NewHandler]; a stdio server calls [Run] (or connects through [Wrap]). Both take an
// event server, through which they access its mcp.Server. Both serve the legacy revisions, which start with initialize,
// and the stateless revision 2026-07-28 side by side.
//
// Reading order: events.go answers an extension call. handler.go routes HTTP requests after the checks of origins.go;
// httpevents.go accepts the calls and carries streams; session.go implements the legacy sessions; notify.go handles
// cancels and other notifications; listen.go and announce.go send list_changed to HTTP clients. conn.go and conncall.go
// do the same for message-based connections, on top of outbox.go, which writes, and lines.go, which reads and writes
// newline-delimited JSON.
package transport
