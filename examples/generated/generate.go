// Package generated holds the generated packages of the examples, in directories below it. Its go:generate line
// generates everything that mcpe.yaml names.
package generated

//go:generate go tool mcpe-gen generate
