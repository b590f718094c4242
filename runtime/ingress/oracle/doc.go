// Package oracle tests runtime/ingress against the libraries of the services. The package and the libraries must accept
// and reject the same signatures. It is a separate module, so users of mcpe-gen do not have to download the libraries.
// `make oracle` runs its tests. The package makes no compatibility promise.
package oracle
