package mcpc

import (
	"cmp"
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// maxID is the maximum length of client ids in bytes.
const maxID = 256

// callMetadata is the MCPC metadata in the arguments of a call (MCPC-META-1).
type callMetadata struct {
	present       bool
	session, task string
}

// metadataForms lists the two forms of the metadata. The newer form comes first and takes precedence if a call contains
// both.
var metadataForms = []struct{ argument, session, task string }{
	{wire.MCPCParams, wire.MCPCParamsSession, wire.MCPCParamsTask},
	{wire.MCPCMetadata, wire.MCPCMetadataSession, wire.MCPCMetadataTask},
}

// takeMetadata splits a call's arguments into the tool's arguments and MCPC's metadata. The error can be shown to the
// caller.
func takeMetadata(arguments json.RawMessage) (own json.RawMessage, m callMetadata, err error) {
	members := map[string]jsontext.Value{}
	if len(arguments) > 0 && string(arguments) != "null" {
		// This rejects duplicates, which a map would hide from the validation.
		if err := jsonv2.Unmarshal(arguments, &members); err != nil {
			return nil, m, fmt.Errorf("arguments: must be an object without duplicate members")
		}
	}
	for _, f := range metadataForms {
		raw, ok := members[f.argument]
		if !ok {
			continue
		}
		delete(members, f.argument)
		m.present = true
		var values map[string]any
		if json.Unmarshal(raw, &values) != nil {
			return nil, m, fmt.Errorf("%s: must be an object", f.argument)
		}
		for member, into := range map[string]*string{f.session: &m.session, f.task: &m.task} {
			text, isText := values[member].(string)
			switch {
			case values[member] == nil || *into != "":
			case !isText || len(text) > maxID:
				return nil, m, fmt.Errorf("%s.%s: must be a string of at most %d bytes", f.argument, member, maxID)
			default:
				*into = text
			}
		}
	}
	m.session = cmp.Or(m.session, wire.MCPCSession)
	if m.task == "" {
		m.task = newID()
	}
	own, err = jsonv2.Marshal(members, jsonv2.Deterministic(true))
	return own, m, err
}

// withoutMetadata returns an error if a schema has a property with a name that MCPC uses.
func withoutMetadata(inputSchema json.RawMessage) error {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(inputSchema, &s); err != nil {
		return err
	}
	for _, f := range metadataForms {
		if _, taken := s.Properties[f.argument]; taken {
			return fmt.Errorf("the argument %q belongs to MCPC", f.argument)
		}
	}
	return nil
}
