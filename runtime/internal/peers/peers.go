// Package peers tests the client and the server against other implementations: the TypeScript SDKs 1.x and 2.x as
// servers and as clients, and the AI SDK as a client. It has tests only; their programs and the exact versions of
// their packages are in testdata, and `make peers` installs and runs them.
package peers
