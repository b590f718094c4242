// Package clustertest is a test suite for servers that share a store as replicas of a cluster (REP in
// docs/requirements.md). Every engine must pass the suite. To run it, call [Run] with the engine. The suite accesses
// servers as callers, operators and webhook receivers do, and the store through its engine interface. The package has
// no compatibility guarantee.
package clustertest

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An Engine describes the store under test.
type Engine struct {
	// New creates a store.
	New func(t *testing.T) Store
	// Run executes a test. For an in-memory engine it is [testing/synctest.Test]. Otherwise it calls f(t).
	Run func(t *testing.T, f func(t *testing.T))
	// Bubble reports whether Run executes tests in a synctest bubble, which allows tests that wait for hours.
	Bubble bool
	// Lease is the minimum lease that works reliably on a busy machine. The timeout of each call is a fifth of the
	// lease. A test that crashes a process uses at least this lease. Zero means no minimum.
	Lease time.Duration
}

// A Store gives access to the store that the servers of one test share.
type Store struct {
	// Open opens the store again, as another process does. The suite closes it, or the engine does when the test ends.
	Open func() engine.Shared
	// Unmark deletes all marks of a log, as if no owner had stored any.
	Unmark func(log string)
	// Silence hides other stores' appends to a log from an open store, including from its queries. It is nil if the
	// engine does not support that.
	Silence func(s engine.Shared, log string)
}

// A test is a named test of the suite.
type test struct {
	name string
	run  func(f *fleet)
	// long reports whether the test waits for more than a few seconds.
	long bool
}

// Run runs the suite.
func Run(t *testing.T, e Engine) {
	for _, tests := range [][]test{ownerTests, elsewhereTests, orderTests, streamTests, checkTests, operatorTests, buildTests} {
		for _, c := range tests {
			t.Run(c.name, func(t *testing.T) {
				if c.long && !e.Bubble {
					t.Skip("without a bubble, this test would wait too long")
				}
				e.Run(t, func(t *testing.T) { c.run(newFleet(t, e)) })
			})
		}
	}
}
