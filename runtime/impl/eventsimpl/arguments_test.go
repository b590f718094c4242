package eventsimpl_test

import (
	"encoding/json"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

// What has no arguments takes an object and nothing else, and writes an empty one.
func TestNoArguments(t *testing.T) {
	for text, good := range map[string]bool{`{}`: true, `{"unknown": 1}`: true, `[]`: false, `"x"`: false, `1`: false} {
		var a eventsimpl.NoArguments
		if err := json.Unmarshal([]byte(text), &a); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
	if out, err := json.Marshal(eventsimpl.NoArguments{}); err != nil || string(out) != "{}" {
		t.Errorf("%s, %v", out, err)
	}
}
