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

// A memberLimit restricts the optional members of a value.
type memberLimit struct {
	// depth is the maximum nesting depth of optional members. members is their maximum number in each object.
	depth, members int
}

// unlimited is the limit for a value whose length is not restricted.
var unlimited = memberLimit{5, math.MaxInt}

// shorterLimits lists the limits to try in order if an example is too long. The last one omits all optional members.
var shorterLimits = []memberLimit{{3, 6}, {2, 6}, {1, 6}, {1, 2}, {0, 0}}

// allows reports whether a value from examples or default can be used. Only unlimited allows objects and arrays,
// because their members cannot be omitted.
func (r memberLimit) allows(n *source.Node) bool {
	return r == unlimited || n.Kind != source.Object && n.Kind != source.Array
}

// Example returns the value of [Maker.Value] if its length is at most [MaxExample]. Otherwise it omits optional
// members. It returns false if the required members are too long.
func (m *Maker) Example(s *published.Schema) (json.RawMessage, bool) {
	schema, valid := m.compile(s)
	if schema == nil {
		return nil, false
	}
	v, attempt := firstValid(schema, valid, 0)
	if v == nil || short(v) {
		return v, v != nil
	}
	for _, r := range shorterLimits {
		mk := maker{sparse: r.depth == 0, branch: attempt / 2, limit: r}
		if v := mk.generate(schema, valid); v != nil && short(v) {
			return v, true
		}
	}
	return nil, false
}

func short(v json.RawMessage) bool {
	var shown bytes.Buffer
	return json.Indent(&shown, v, "", "  ") == nil && shown.Len() <= MaxExample
}
