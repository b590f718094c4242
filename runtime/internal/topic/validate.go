package topic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// maxNesting is the maximum nesting depth of an entry's data and _meta. Go's JSON parsers reject a response with more
// than 10,000 levels.
const maxNesting = 9_000

// Sound returns an error if an entry would corrupt a response that includes its bytes verbatim. The eventId must be
// valid, and data and _meta must be JSON objects without line breaks. Emit only appends valid entries, but anyone with
// write access to a store's tables can insert invalid ones.
func Sound(e *store.Entry) error {
	if err := wire.CheckEventID(e.EventID); err != nil {
		return err
	}
	if err := checkObject(e.Data); err != nil {
		return fmt.Errorf("data %w", err)
	}
	if len(e.Meta) == 0 {
		return nil
	}
	if err := checkObject(e.Meta); err != nil {
		return fmt.Errorf("_meta %w", err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(e.Meta, &members); err != nil {
		return fmt.Errorf("_meta: %w", err)
	}
	for _, ours := range []string{wire.MetaSubscriptionID, wire.MetaFingerprint} {
		if _, ok := members[ours]; ok {
			return fmt.Errorf("_meta has the member %s, which only servers write", ours)
		}
	}
	if len(members) == 0 {
		return errors.New("_meta is empty, it should be absent")
	}
	return nil
}

// checkObject returns an error unless b is a JSON object without line breaks.
func checkObject(b []byte) error {
	switch {
	case len(b) == 0 || b[0] != '{' || b[len(b)-1] != '}':
		return errors.New("is not a JSON object")
	case bytes.ContainsAny(b, "\r\n"):
		return errors.New("has a line break between its tokens")
	case !jsontext.Value(b).IsValid(): // also rejects duplicate members and invalid UTF-8
		return errors.New("is not valid JSON")
	case codec.Deeper(b, maxNesting):
		return fmt.Errorf("is nested deeper than %d levels", maxNesting)
	}
	return nil
}
