// Package clustertest is a test suite for servers that share a store as the replicas of a cluster (REP in
// docs/requirements.md). Every engine must pass it: call [Run] with the engine. The suite uses servers as callers,
// operators and webhook receivers do, and the store through its engine interface. The package makes no promise of
// compatibility.
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
	// Run runs a test: [testing/synctest.Test] for an engine in memory, otherwise f(t).
	Run func(t *testing.T, f func(t *testing.T))
	// Bubble reports that Run runs the test in a bubble, so that tests which wait for hours can run.
	Bubble bool
	// Lease is the shortest lease that servers of the store can hold on a busy machine. A process gives each call a
	// fifth of it. Tests with a dying process use it if they would use a shorter one; 0 means no minimum.
	Lease time.Duration
}

// A Store is the store that the servers of one test share.
type Store struct {
	// Open opens the store once more, as another process does. The suite closes it, or the end of the test does.
	Open func() engine.Shared
	// Unmark deletes the marks of a log, as if no owner had stored one.
	Unmark func(log string)
	// Silence hides from an opened store what others append to a log, however it asks; nil if that is not possible.
	Silence func(s engine.Shared, log string)
}

// A test is one test of the suite.
type test struct {
	name string
	run  func(f *fleet)
	// long marks a test that waits for more than a few seconds.
	long bool
}

// Run runs the suite.
func Run(t *testing.T, e Engine) {
	for _, tests := range [][]test{ownerTests, elsewhereTests, orderTests, streamTests, checkTests, operatorTests} {
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
