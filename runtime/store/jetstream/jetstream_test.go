package jetstream_test

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func age(_ *testing.T, s store.Store, by time.Duration) { s.(*jetstream.Store).Age(by) }

func TestStore(t *testing.T) {
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		storetest.TestStoreOfClock(t, func(t *testing.T) store.Store { return single(t) }, age)
	})
	t.Run("three servers", func(t *testing.T) {
		t.Parallel()
		storetest.TestStoreOfClock(t, func(t *testing.T) store.Store { return replicated(t) }, age)
	})
}
