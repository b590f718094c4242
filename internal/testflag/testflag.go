// Package testflag sets flags of go test that were not given.
package testflag

import (
	"flag"
	"strconv"
)

// Parallel lets n tests of a package run at once that call Parallel, for tests that wait most of the time. It
// is called in TestMain, before the tests run, and parses the flags.
func Parallel(n int) {
	const name = "test.parallel"
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		_ = flag.Set(name, strconv.Itoa(n)) // a test binary has the flag
	}
}
