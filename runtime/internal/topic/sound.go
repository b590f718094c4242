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

// maxNesting is how deep an entry's data and _meta may be nested: parsers in Go give up an answer beyond 10,000 levels.
const maxNesting = 9_000

// Sound returns what is wrong with an entry whose bytes would go into answers as they are, and so could
// break them: its id is none, or its data or _meta is no JSON object in one line. What Emit appends is
// sound; somebody with rights on a store's tables can write what is not.
func Sound(e *store.Entry) error {
	if err := wire.CheckEventID(e.EventID); err != nil {
		return err
	}
	if err := object(e.Data); err != nil {
		return fmt.Errorf("data %w", err)
	}
	if len(e.Meta) == 0 {
		return nil
	}
	if err := object(e.Meta); err != nil {
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

// object returns why b is no JSON object in one line.
func object(b []byte) error {
	switch {
	case len(b) == 0 || b[0] != '{' || b[len(b)-1] != '}':
		return errors.New("is no JSON object")
	case bytes.ContainsAny(b, "\r\n"):
		return errors.New("has a line break between its tokens")
	case !jsontext.Value(b).IsValid(): // members twice and bytes that are not UTF-8 too
		return errors.New("is no valid JSON")
	case codec.Deeper(b, maxNesting):
		return fmt.Errorf("is nested deeper than %d levels", maxNesting)
	}
	return nil
}
