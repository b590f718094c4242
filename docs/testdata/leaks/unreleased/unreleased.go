// Package unreleased is of a module without a release.
package unreleased

type Encoder struct{}
