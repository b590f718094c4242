// Package public adopts published servers as described in docs/adopting.md: gopls, which creates a server for each SSE
// connection and one for stdio, and the memory server of the official SDK. It also adopts servers of mcp-go with the
// structure of published ones. It is a separate module that pins their versions, so users of mcpe-gen do not download
// them. `make adopt` runs its tests. The package does not promise compatibility.
package public
