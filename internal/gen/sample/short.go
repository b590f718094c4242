package sample

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
)

// MaxExample limits the length of an example, in bytes of its JSON with two-space indentation.
const MaxExample = 2 << 10

// A room limits the optional members of a value.
type room struct {
	// depth is the maximum depth of optional members, and members their maximum number per object.
	depth, members int
}

// wholeRoom is the room for a value of any length.
var wholeRoom = room{5, math.MaxInt}

// rooms lists the rooms to try if an example is too long in wholeRoom. The last has only required members.
var rooms = []room{{3, 6}, {2, 6}, {1, 6}, {1, 2}, {0, 0}}

// takes reports whether a value from the schema may be used in the room. The room cannot limit the members of an
// object or array.
func (r room) takes(n *source.Node) bool {
	return r == wholeRoom || n.Kind != source.Object && n.Kind != source.Array
}

// Example returns the value of [Maker.Value] if it has at most [MaxExample] bytes. Otherwise it omits optional
// members. It returns false if the required members are too long.
func (m *Maker) Example(s *published.Schema) (json.RawMessage, bool) {
	schema, valid := m.compiled(s)
	if schema == nil {
		return nil, false
	}
	v, attempt := candidate(schema, valid, 0)
	if v == nil || short(v) {
		return v, v != nil
	}
	for _, r := range rooms {
		mk := maker{sparse: r.depth == 0, branch: attempt / 2, room: r}
		if v := mk.make(schema, valid); v != nil && short(v) {
			return v, true
		}
	}
	return nil, false
}

func short(v json.RawMessage) bool {
	var shown bytes.Buffer
	return json.Indent(&shown, v, "", "  ") == nil && shown.Len() <= MaxExample
}
