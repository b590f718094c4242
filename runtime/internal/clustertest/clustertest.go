// Package clustertest is the test suite for servers that share a store as the replicas of a cluster (REP in
// docs/requirements.md). Every engine passes it: call [Run] with one. The suite sees servers as their callers, operators
// and receivers of webhooks do, and the store as its engine. The package makes no promise of compatibility.
package clustertest

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An Engine is what the suite is run on.
type Engine struct {
	// New makes a store.
	New func(t *testing.T) Store
	// Run runs a test: [testing/synctest.Test] for an engine in memory, else f(t).
	Run func(t *testing.T, f func(t *testing.T))
	// Bubble tells that Run gives the test a bubble: then tests run that wait for hours.
	Bubble bool
	// Lease is the shortest lease that the store's servers keep on a busy machine: a process gives each call a fifth of
	// it. Tests in which somebody dies take it where they would take a shorter one; 0 for as they are.
	Lease time.Duration
}

// A Store is what the servers of one test share.
type Store struct {
	// Open opens it once more, as another process does. What was opened is closed by the suite or when the
	// test ends.
	Open func() engine.Shared
	// Unmark forgets how far a log was offered, as if no owner had noted it.
	Unmark func(log string)
	// Silence cuts one that was opened off from what others append to a log, however it asks; nil where that
	// cannot be done.
	Silence func(s engine.Shared, log string)
}

// A test is one of the suite.
type test struct {
	name string
	run  func(f *fleet)
	// long tells that it waits for more than some seconds.
	long bool
}

// Run runs the suite.
func Run(t *testing.T, e Engine) {
	for _, tests := range [][]test{ownerTests, elsewhereTests, orderTests, streamTests, checkTests, operatorTests} {
		for _, c := range tests {
			t.Run(c.name, func(t *testing.T) {
				if c.long && !e.Bubble {
					t.Skip("it waits for longer than a test may without a bubble")
				}
				e.Run(t, func(t *testing.T) { c.run(newFleet(t, e)) })
			})
		}
	}
}
