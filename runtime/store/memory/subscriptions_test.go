package memory_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func TestSubscriptions(t *testing.T) {
	storetest.TestSubscriptions(t, func(*testing.T) store.SubscriptionStore { return memory.New() })
}

func TestAttempts(t *testing.T) {
	enginetest.TestAttempts(t, func(*testing.T) enginetest.Attempts { return memory.New() })
}

func TestLister(t *testing.T) {
	enginetest.TestLister(t, func(*testing.T) enginetest.Lister { return memory.New() })
}
