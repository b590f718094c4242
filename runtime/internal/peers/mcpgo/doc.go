// Package mcpgo tests our server and client against those of mark3labs/mcp-go, the other Go implementation of MCP that
// is widely used. It is a module of its own, so that users of mcpe-gen do not download it; `make peers` runs its tests.
// The package makes no promise of compatibility.
package mcpgo
