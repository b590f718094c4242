// Package oracle holds runtime/ingress against the libraries of the services: what they sign is verified, and what is
// verified they would verify too. It is a module of its own, so that nobody who uses mcpe-gen downloads them; `make
// oracle` runs its tests. The package makes no promise of compatibility.
package oracle
