package sample

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
)

// MaxExample is the maximum length of an example in bytes, as JSON with two-space indentation.
const MaxExample = 2 << 10

// A memberLimit limits the optional members of a value.
type memberLimit struct {
	// depth is the maximum depth of optional members. members is their maximum number per object.
	depth, members int
}

// unlimited is the limit for a value of any length.
var unlimited = memberLimit{5, math.MaxInt}

// limits lists the limits to try if an example is too long. The last one omits all optional members.
var limits = []memberLimit{{3, 6}, {2, 6}, {1, 6}, {1, 2}, {0, 0}}

// accepts reports whether a value from the schema may be used. Objects and arrays are accepted only by unlimited,
// because their members cannot be omitted.
func (r memberLimit) accepts(n *source.Node) bool {
	return r == unlimited || n.Kind != source.Object && n.Kind != source.Array
}

// Example returns the value of [Maker.Value] if its length is at most [MaxExample]. Otherwise it omits optional
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
	for _, r := range limits {
		mk := maker{sparse: r.depth == 0, branch: attempt / 2, limit: r}
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
