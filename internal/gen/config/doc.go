// Package config reads mcpe.yaml, the configuration of the generator.
//
// Start with [Find], which searches a directory and its parents for the file, and [Load], which reads and validates
// it. All paths in the file are relative to its directory.
package config
