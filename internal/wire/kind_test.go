package wire_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// D2 and section 2: each error has one code in each dialect, and either code is understood.
func TestErrorCodes(t *testing.T) {
	for _, c := range []struct {
		kind        wire.Kind
		name        string
		sketch, sep int64
	}{
		{wire.InvalidParams, "InvalidParams", -32602, -32602},
		{wire.NotFound, "NotFound", -32011, -32023},
		{wire.Forbidden, "Forbidden", -32012, -32024},
		{wire.ResourceExhausted, "ResourceExhausted", -32013, -32025},
		{wire.Unsupported, "Unsupported", -32014, -32026},
		{wire.CallbackEndpointError, "CallbackEndpointError", -32015, -32027},
		{wire.UpstreamError, "UpstreamError", -32603, -32603},
		{wire.Internal, "InternalError", -32603, -32603},
		{wire.MethodNotFound, "MethodNotFound", -32601, -32601},
	} {
		if c.kind.String() != c.name || wire.Sketch.Code(c.kind) != c.sketch || wire.SEP.Code(c.kind) != c.sep {
			t.Errorf("%s: %s %d %d", c.name, c.kind, wire.Sketch.Code(c.kind), wire.SEP.Code(c.kind))
		}
		if k, d, ok := wire.KindOf(c.sketch, c.name); !ok || k != c.kind || d != wire.Sketch {
			t.Errorf("KindOf(%d, %s) = %s, %v, %v", c.sketch, c.name, k, d, ok)
		}
		want := wire.SEP
		if c.sketch == c.sep {
			want = wire.Sketch
		}
		if k, d, ok := wire.KindOf(c.sep, c.name); !ok || k != c.kind || d != want {
			t.Errorf("KindOf(%d, %s) = %s, %v, %v", c.sep, c.name, k, d, ok)
		}
	}
	if k, _, ok := wire.KindOf(-32603, "whatever"); !ok || k != wire.Internal {
		t.Errorf("-32603 is %s, %v", k, ok)
	}
	// The message matters only where codes are shared.
	if k, _, ok := wire.KindOf(-32011, "gone"); !ok || k != wire.NotFound {
		t.Errorf("-32011 is %s, %v", k, ok)
	}
	for _, code := range []int64{0, -32000, -32700, -32600, -32010, -32016, -32022, -32028} {
		if k, _, ok := wire.KindOf(code, "NotFound"); ok {
			t.Errorf("%d is %s", code, k)
		}
	}
}
