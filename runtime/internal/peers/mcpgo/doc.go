// Package mcpgo holds our server and client against those of mark3labs/mcp-go, the other Go implementation of MCP that is in
// wide use. It is a module of its own, so that nobody who uses mcpe-gen downloads it; `make peers` runs its tests. The
// package makes no promise of compatibility.
package mcpgo
