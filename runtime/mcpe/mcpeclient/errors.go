package mcpeclient

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// resultError returns the error in a tool result, or nil. Servers report an error as an object in the content, as plain
// text, or as success: false (MCPE-TOOL-4).
func resultError(isError bool, raw json.RawMessage, text string) error {
	var content struct {
		Success *bool
		Error   json.RawMessage
		Message string
	}
	if len(raw) > 0 && raw[0] == '{' {
		_ = json.Unmarshal(raw, &content)
	}
	if !isError && len(content.Error) == 0 && (content.Success == nil || *content.Success) {
		return nil
	}
	var object mcpewire.Refusal
	if json.Unmarshal(content.Error, &object) == nil && object.Message != "" {
		return &Error{Code: object.Code, Name: object.Name, Message: object.Message, RetryAfter: time.Duration(object.RetryAfterMs) * time.Millisecond}
	}
	e := &Error{Message: text}
	var words string
	if json.Unmarshal(content.Error, &words) == nil {
		e.Message = words
	} else if content.Message != "" {
		e.Message = content.Message
	}
	return e
}

// asRefusal converts a JSON-RPC error to an [*Error] if the code is -32602 or an MCPE code.
func asRefusal(err error) error {
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) {
		return nil
	}
	code := mcpewire.Code(rpc.Code)
	if code.String() == "" || code == mcpewire.CodeInternal {
		return nil
	}
	return &Error{Code: code, Name: code.String(), Message: rpc.Message}
}
