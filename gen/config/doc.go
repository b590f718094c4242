// Package config reads mcpe.yaml, the configuration of the generator.
//
// Start with [Find], which searches the file upwards from a directory, and [Load], which reads it and
// checks it strictly. All paths in the file are relative to the directory that holds it.
//
// The package makes no promise of compatibility.
package config
