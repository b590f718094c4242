// Package peers tests the client and the server against other implementations. These are the TypeScript SDKs 1.x and
// 2.x as servers and clients, and the AI SDK as a client. The package contains only tests. Their programs and the exact
// versions of the npm packages are in testdata. Run `make peers` to install the packages and run the tests.
package peers
