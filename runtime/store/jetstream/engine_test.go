package jetstream_test

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

// The suite of shared stores, with two openers at different servers: plain, with the first answer of each write lost,
// and without republished messages. Its claims and topics test JS-21, its revisions and marks JS-24 and JS-26, its
// quotas JS-27, its states and schemas JS-31.
func TestShared(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    jetstream.Options
		with func(*jetstream.Store)
	}{
		{"as it is", jetstream.Options{}, func(*jetstream.Store) {}},
		{"JS-6: the first answer of each write is lost", jetstream.Options{}, (*jetstream.Store).Lose},
		{"JS-8: nothing that is republished comes", jetstream.Options{Poll: 20 * time.Millisecond}, (*jetstream.Store).Deafen},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			enginetest.TestShared(t, enginetest.Shared{
				Open: func(t *testing.T) (engine.Shared, engine.Shared) {
					o := tc.o
					o.Namespace = space()
					a, b := open(t, cluster[0].ClientURL(), o), open(t, cluster[1].ClientURL(), o)
					tc.with(a)
					tc.with(b)
					return a, b
				},
				Slow: func(t *testing.T, s engine.Shared) { s.(*jetstream.Store).Slow(10 * time.Millisecond) },
			})
		})
	}
}

// The suite of a store with one opener, on the cluster.
func TestSubscriptions(t *testing.T) {
	storetest.TestSubscriptions(t, func(t *testing.T) store.SubscriptionStore { return replicated(t) })
}

func TestAttempts(t *testing.T) {
	enginetest.TestAttempts(t, func(t *testing.T) enginetest.Attempts { return replicated(t) })
}

func TestClients(t *testing.T) {
	storetest.TestCursors(t, func(t *testing.T) clientstore.CursorStore { return replicated(t) })
	storetest.TestCallbacks(t, func(t *testing.T) clientstore.CallbackStore { return replicated(t) })
	storetest.TestReceived(t, func(t *testing.T) (clientstore.ReceivedStore, clientstore.CursorStore) {
		s := replicated(t)
		return s, s
	})
}
