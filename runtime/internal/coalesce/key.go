package coalesce

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Key returns a string that combines the payload's values at the given JSON Pointers. Equal values yield equal keys,
// regardless of the notation of numbers. Key returns false if a value is absent, null, an object or an array.
func Key(places []string, payload json.RawMessage) (string, bool) {
	var key []byte
	for _, place := range places {
		tokens, ok := wire.SplitPointer(place)
		if !ok {
			return "", false
		}
		value := json.RawMessage(bytes.TrimSpace(payload))
		for _, token := range tokens {
			value = member(value, token)
		}
		if len(value) == 0 || value[0] == '{' || value[0] == '[' || value[0] == 'n' {
			return "", false
		}
		if len(key) > 0 {
			key = append(key, ',')
		}
		plain, err := wire.Canonical(value)
		if err != nil {
			plain = value // a number without a canonical form
		}
		key = append(key, plain...)
	}
	return string(key), len(key) > 0
}

// member returns the object member or array element that token selects, or nil.
func member(value json.RawMessage, token string) json.RawMessage {
	if len(value) == 0 || value[0] != '[' {
		return wire.FirstMember(value, token)
	}
	i, err := strconv.Atoi(token)
	if err != nil || strconv.Itoa(i) != token || i < 0 {
		return nil
	}
	all, err := wire.Members{"": value}.Elements("")
	if err != nil || i >= len(all) {
		return nil
	}
	return all[i]
}
