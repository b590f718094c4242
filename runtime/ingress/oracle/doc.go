// Package oracle tests runtime/ingress against the libraries of the services. Both must accept and reject the same
// signatures. It is a separate module, so that users of mcpe-gen do not have to download the libraries. `make oracle`
// runs its tests. The package makes no promise of compatibility.
package oracle
