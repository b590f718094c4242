// Package testflag sets flags of go test that the user did not set.
package testflag

import (
	"flag"
	"strconv"
)

// Parallel sets the number of parallel tests to n, for tests that mostly wait. Call it in TestMain, before the tests
// run. It parses the flags.
func Parallel(n int) {
	const name = "test.parallel"
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		_ = flag.Set(name, strconv.Itoa(n)) // a test binary has the flag
	}
}
