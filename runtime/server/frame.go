package server

import (
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// appendString appends s, an eventId or cursor, as JSON.
func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			q, err := json.Marshal(s)
			if err != nil {
				return append(b, `""`...)
			}
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// streamTail closes every frame of a stream: the subscription id is the last member of _meta, and
// _meta the last of params. The id's bytes are those of the request (PUSH-2).
func streamTail(id json.RawMessage) []byte {
	return fmt.Appendf(nil, `%q:%s}}}`, wire.MetaSubscriptionID, id)
}

// controlFrame makes a frame that is no event: params are members without braces.
func controlFrame(method, members string, tail []byte) Frame {
	return Frame{Head: []byte(framePrefix + method + frameParams + "{" + members + `,"_meta":{`), Tail: tail}
}

func activeFrame(cursor []byte, truncated bool, tail []byte) Frame {
	return controlFrame(wire.NotificationActive, fmt.Sprintf(`"cursor":%s,"truncated":%t`, cursor, truncated), tail)
}

func heartbeatFrame(cursor []byte, tail []byte) Frame {
	return controlFrame(wire.NotificationHeartbeat, `"cursor":`+string(cursor), tail)
}

func errorFrame(method string, e *wire.ErrorObject, tail []byte) Frame {
	b, _ := json.Marshal(e) // its data is JSON already
	return controlFrame(method, `"error":`+string(b), tail)
}

// finalResult is the result of a stream that the server ended (D9).
func finalResult(id json.RawMessage, stateless bool) json.RawMessage {
	if !stateless {
		return json.RawMessage(`{"_meta":{}}`)
	}
	return fmt.Appendf(nil, `{"resultType":%q,"_meta":{%q:%s}}`, wire.ResultComplete, wire.MetaSubscriptionID, id)
}
