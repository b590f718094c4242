package readtool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
)

// COAL-3: an argument that nobody has named is left out where the event type has one of its name, and with the wait
// what collects within it.
func TestCOAL3Fitting(t *testing.T) {
	own := func(names ...string) json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":{"` + strings.Join(names, `":{},"`) + `":{}}}`)
	}
	all := toolschema.ArgumentNames{}.WithDefaults()
	for _, c := range []struct {
		input  json.RawMessage
		chosen toolschema.ArgumentNames
		change func(*toolschema.ArgumentNames)
	}{
		{own("other"), toolschema.ArgumentNames{}, func(*toolschema.ArgumentNames) {}},
		{own("since"), toolschema.ArgumentNames{}, func(n *toolschema.ArgumentNames) { n.Since = "" }},
		{own("quietSeconds"), toolschema.ArgumentNames{}, func(n *toolschema.ArgumentNames) { n.Quiet = "" }},
		{own("waitSeconds", "since"), toolschema.ArgumentNames{}, func(n *toolschema.ArgumentNames) { n.Wait, n.Quiet, n.Since = "", "", "" }},
		{own("since"), toolschema.ArgumentNames{Since: "from"}, func(n *toolschema.ArgumentNames) { n.Since = "from" }},
		{own("since"), toolschema.ArgumentNames{Since: "since"}, func(*toolschema.ArgumentNames) {}}, // refused when it is added
		{own("cursor", "since"), toolschema.ArgumentNames{}, func(*toolschema.ArgumentNames) {}},
		{json.RawMessage(`{"oneOf":[{}]}`), toolschema.ArgumentNames{}, func(*toolschema.ArgumentNames) {}},
	} {
		want := all
		c.change(&want)
		if got := resolveConflicts(c.chosen, c.input); got != want {
			t.Errorf("%s, %+v: %+v, want %+v", c.input, c.chosen, got, want)
		}
	}
}
