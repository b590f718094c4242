package clientmemory_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func TestCursors(t *testing.T) {
	storetest.TestCursors(t, func(*testing.T) clientstore.CursorStore { return clientmemory.NewCursors() })
}

func TestDeadLetters(t *testing.T) {
	storetest.TestDeadLetters(t, func(t *testing.T) clientstore.DeadLetterStore { return clientmemory.NewCursors() })
}

func TestReceived(t *testing.T) {
	storetest.TestReceived(t, func(*testing.T) (clientstore.ReceivedStore, clientstore.CursorStore) {
		cursors := clientmemory.NewCursors()
		return clientmemory.NewReceived(cursors), cursors
	})
}

func TestCallbacks(t *testing.T) {
	storetest.TestCallbacks(t, func(*testing.T) clientstore.CallbackStore { return &clientmemory.Callbacks{} })
}
