package delivery

import (
	"reflect"
	"testing"
)

// TestHandleSize keeps a Handle within the allocator's size class of 416 bytes. A server can have 100,000 of them.
func TestHandleSize(t *testing.T) {
	if n := reflect.TypeFor[Handle]().Size(); n > 416 {
		t.Errorf("a Handle has %d bytes, more than 416: move a field that most subscriptions do not need behind a pointer", n)
	}
}
