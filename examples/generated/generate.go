// Package generated has the generated packages of the examples below it. The line that `mcpe-gen init` writes makes them,
// and all others that mcpe.yaml names.
package generated

//go:generate go tool mcpe-gen generate
