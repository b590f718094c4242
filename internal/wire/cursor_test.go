package wire_test

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

type cursorVectors struct {
	Cursors []struct {
		Kind                  string
		Name                  uint32
		Epoch, Position, Feed string
		Upstream              string
		Offset, Proof         uint32
		Text                  string
	}
	Malformed  []string
	NameHashes map[string]uint32
}

// CUR-1, LIST-1: cursors are opaque strings whose bytes are fixed by published vectors; what is no
// cursor is an error value.
func TestCursorVectors(t *testing.T) {
	var v cursorVectors
	readVectors(t, "cursors.json", &v)
	kinds := map[string]wire.CursorKind{"log": wire.LogCursor, "check": wire.CheckCursor, "both": wire.BothCursor, "list": wire.ListCursor}
	number := func(s string) uint64 {
		n, _ := strconv.ParseUint(s, 10, 64)
		return n
	}
	for _, c := range v.Cursors {
		want := wire.Cursor{Kind: kinds[c.Kind], Name: c.Name, Epoch: number(c.Epoch), Position: number(c.Position), Proof: c.Proof, Feed: number(c.Feed), Upstream: c.Upstream, Offset: c.Offset}
		if got := want.String(); got != c.Text {
			t.Errorf("%+v is %s, want %s", want, got, c.Text)
		}
		if got, err := wire.ParseCursor(c.Text); err != nil || got != want {
			t.Errorf("%s is %+v, %v, want %+v", c.Text, got, err, want)
		}
	}
	for _, text := range v.Malformed {
		if got, err := wire.ParseCursor(text); err != wire.ErrCursor {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for name, want := range v.NameHashes {
		if got := wire.NameHash(name); got != want {
			t.Errorf("NameHash(%q) = %d, want %d", name, got, want)
		}
	}
}

func TestCursorRoundTripProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := wire.Cursor{Kind: wire.CursorKind(rapid.IntRange(1, 4).Draw(t, "kind")), Name: rapid.Uint32().Draw(t, "name")}
		if c.Kind != wire.CheckCursor {
			c.Epoch, c.Position = rapid.Uint64().Draw(t, "epoch"), rapid.Uint64().Draw(t, "position")
		}
		if c.Kind == wire.CheckCursor || c.Kind == wire.BothCursor {
			c.Feed, c.Offset = rapid.Uint64().Draw(t, "feed"), rapid.Uint32().Draw(t, "offset")
		}
		if c.Kind == wire.LogCursor || c.Kind == wire.BothCursor {
			c.Proof = rapid.Uint32().Draw(t, "proof")
		}
		if c.Kind != wire.LogCursor {
			c.Upstream = string(rapid.SliceOf(rapid.Byte()).Draw(t, "upstream"))
		}
		if got, err := wire.ParseCursor(c.String()); err != nil || got != c {
			t.Fatalf("%+v became %+v, %v", c, got, err)
		}
	})
}

func TestCursorOfNoKind(t *testing.T) {
	for _, kind := range []wire.CursorKind{0, 5, 255} {
		if got := (wire.Cursor{Kind: kind}).String(); got != "" {
			t.Errorf("kind %d is %q", kind, got)
		}
	}
}

// A text that is accepted is the one text of its cursor.
func FuzzParseCursor(f *testing.F) {
	for kind := wire.LogCursor; kind <= wire.ListCursor; kind++ {
		f.Add(wire.Cursor{Kind: kind, Name: 1, Epoch: 2, Position: 3, Proof: 6, Feed: 4, Upstream: "u", Offset: 5}.String())
	}
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := wire.ParseCursor(s); err == nil && c.String() != s {
			t.Errorf("%q is accepted as %+v, which is written as %q", s, c, c.String())
		}
	})
}
