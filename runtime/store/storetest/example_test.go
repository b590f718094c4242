package storetest_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

// A store's own test is one call.
func ExampleTestStore() {
	var t *testing.T // of func TestStore(t *testing.T)
	storetest.TestStore(t, func(*testing.T) store.Store { return memory.New() })
}
