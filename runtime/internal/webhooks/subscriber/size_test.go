package subscriber

import (
	"reflect"
	"testing"
)

// TestSizes keeps a Live and a logReader within size classes of the allocator. A server can have 100,000 of each.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		of   reflect.Type
		most uintptr
	}{{reflect.TypeFor[Live](), 144}, {reflect.TypeFor[logReader](), 176}} {
		if n := c.of.Size(); n > c.most {
			t.Errorf("a %s has %d bytes, more than %d: read what the Handle or the record has from there", c.of, n, c.most)
		}
	}
}
