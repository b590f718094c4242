// Package mcpgo tests our server and client against mark3labs/mcp-go, another widely used Go implementation of MCP. It
// is a separate module, so users of mcpe-gen do not download its dependencies. Run its tests with `make peers`. The
// package has no compatibility guarantee.
package mcpgo
