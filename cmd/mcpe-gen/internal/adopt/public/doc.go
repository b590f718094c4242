// Package public adopts servers that others have published, as docs/adopting.md says: gopls, which makes a server for each
// connection by SSE and one on stdio, and the memory server of the official SDK. It is a module of its own, which pins
// their versions, so that nobody who uses mcpe-gen downloads them; `make adopt` runs its tests. The package makes no
// promise of compatibility.
package public
