package webhook

import (
	"encoding/json"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// ErrTooLarge is returned if a body is larger than [MaxBody].
var ErrTooLarge = errors.New("webhook: the body is larger than 256 KiB")

// An Occurrence is an event as encoded in a delivery's body.
type Occurrence struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"` // RFC 3339
	Data      json.RawMessage `json:"data"`
	// Cursor is the position after the event, or nil for an event type without replay.
	Cursor *string         `json:"cursor,omitempty"`
	Meta   json.RawMessage `json:"_meta,omitempty"`
}

// MaxBody is the maximum size in bytes of a body that a server posts. See HOOK-1.
const MaxBody = wire.MaxBody

// Well-known paths. The document at PathReceivers on the callback's origin lists the paths that consent to receive
// deliveries. The document at PathKeySet on the server's origin contains the public keys for its v1a signatures. See
// VER-1, HOOK-10.
const (
	PathReceivers = wire.PathReceivers
	PathKeySet    = wire.PathKeySet
)

// The types of control envelopes.
const (
	TypeVerification = wire.EnvelopeVerification
	TypeGap          = wire.EnvelopeGap
	TypeTerminated   = wire.EnvelopeTerminated
)

// An Envelope is a control envelope, a body that is not an occurrence. Type is always set. A verification has a
// Challenge (VER-2), a gap has a Cursor, and a termination has an Error (HOOK-7).
type Envelope struct {
	Type      string       `json:"type"`
	Challenge string       `json:"challenge,omitempty"`
	Cursor    *string      `json:"cursor,omitempty"`
	Error     *ErrorObject `json:"error,omitempty"`
}

// An ErrorObject is the JSON-RPC error object in a termination.
type ErrorObject struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Body encodes o as the body of a delivery. It uses the given cursor instead of o.Cursor. A nil cursor, as for an event
// type without replay, is encoded as null. Data and Meta are copied unchanged. Call Body again for each attempt,
// because the cursor may differ (HOOK-1). It returns an error for invalid UTF-8, and [ErrTooLarge] if the body is too
// large. See OCC-3, HOOK-6.
func (o Occurrence) Body(cursor *string) ([]byte, error) {
	b := make([]byte, 0, len(o.EventID)+len(o.Name)+len(o.Timestamp)+len(o.Data)+len(o.Meta)+160)
	var errs [4]error
	b, errs[0] = jsontext.AppendQuote(append(b, `{"eventId":`...), o.EventID)
	b, errs[1] = jsontext.AppendQuote(append(b, `,"name":`...), o.Name)
	b, errs[2] = jsontext.AppendQuote(append(b, `,"timestamp":`...), o.Timestamp)
	b = append(append(b, `,"data":`...), o.Data...)
	b, errs[3] = appendCursor(append(b, `,"cursor":`...), cursor)
	if len(o.Meta) > 0 {
		b = append(append(b, `,"_meta":`...), o.Meta...)
	}
	return checkSize(append(b, '}'), errors.Join(errs[:]...))
}

// Gap encodes an envelope that reports a loss of occurrences, which can no longer be delivered. Delivery continues
// after cursor, which is nil for an event type without replay. See HOOK-7.
func Gap(cursor *string) ([]byte, error) {
	b, err := appendCursor([]byte(`{"type":"`+wire.EnvelopeGap+`","cursor":`), cursor)
	return checkSize(append(b, '}'), err)
}

// Terminated encodes an envelope that ends a subscription. See HOOK-7.
func Terminated(e ErrorObject) ([]byte, error) {
	b, err := jsonv2.Marshal(Envelope{Type: wire.EnvelopeTerminated, Error: &e})
	return checkSize(b, err)
}

// Verification encodes an envelope that contains the handshake's challenge. See VER-2.
func Verification(challenge string) ([]byte, error) {
	b, err := jsonv2.Marshal(Envelope{Type: wire.EnvelopeVerification, Challenge: challenge})
	return checkSize(b, err)
}

func appendCursor(b []byte, cursor *string) ([]byte, error) {
	if cursor == nil {
		return append(b, "null"...), nil
	}
	return jsontext.AppendQuote(b, *cursor)
}

func checkSize(b []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, fmt.Errorf("webhook: build body: %w", err)
	}
	if len(b) > wire.MaxBody {
		return nil, ErrTooLarge
	}
	return b, nil
}

// errBody is returned if a body is not a valid message. Its signature may be valid.
var errBody = errors.New("webhook: the body is neither an occurrence nor a control envelope")

// A Delivery is a verified message that a receiver passes to its handler. The content of a Delivery is untrusted input
// from the server (CLI-10).
type Delivery struct {
	Stamp
	// Subscription is the X-MCP-Subscription-Id header, or "" if the server sent none.
	Subscription string
	// Type is the type of a control envelope, or "" for an occurrence. It is verification, gap, terminated or an
	// unknown type. For an unknown type, Envelope contains only the type.
	Type string
	// Occurrence is set if Type is "".
	Occurrence Occurrence
	// Envelope is set if Type is not "".
	Envelope Envelope
	// Body holds the signed bytes of the message.
	Body []byte
}

// Cursor returns the message's cursor, which is the position after an occurrence or a gap. It returns nil if the cursor
// is null or missing. Do not persist a nil cursor (CLI-6).
func (d *Delivery) Cursor() *string {
	if d.Type == "" {
		return d.Occurrence.Cursor
	}
	return d.Envelope.Cursor
}

// deduplicationKey returns the key by which an endpoint detects repeated messages. It is derived from the eventId of an
// occurrence, regardless of its webhook-id, or from the webhook-id of an envelope. The two kinds of key never collide
// (CLI-5, D10).
func (d *Delivery) deduplicationKey() string {
	if d.Type == "" {
		return "event " + d.Occurrence.EventID
	}
	return "message " + d.ID
}

// ParseDelivery parses a body after its signature has been verified. Member names must match exactly and be unique, and
// the body must be valid UTF-8. An escaped lone surrogate, such as half of a truncated emoji, is decoded as U+FFFD,
// except in eventId, name and cursor, where it is an error. If the top-level member type is a non-empty string, the
// body is a control envelope, regardless of its other members. Any other body must be an occurrence. Its eventId is any
// text of 1 to 256 bytes and need not equal the webhook-id (CLI-5, D10). Its name may be missing, as in a poll result,
// because the subscription determines it. Errors do not quote the body.
func ParseDelivery(stamp Stamp, body []byte) (Delivery, error) {
	d := Delivery{Stamp: stamp, Body: body}
	// Only these two members determine the kind of message. The other members are decoded later, so a member from a
	// newer revision does not make a known message invalid.
	var head struct {
		EventID jsontext.Value `json:"eventId"`
		Type    jsontext.Value `json:"type"`
	}
	if err := wire.Decode(body, &head); err != nil {
		return d, errBody
	}
	if head.Type.Kind() == '"' {
		if err := jsonv2.Unmarshal(head.Type, &d.Type); err != nil {
			return d, errBody
		}
	}
	if d.Type == "" {
		o := &d.Occurrence
		if len(head.EventID) == 0 || wire.Decode(body, o) != nil {
			return d, errBody
		}
		if n := len(o.EventID); n > wire.MaxEventID {
			return d, fmt.Errorf("webhook: /eventId has %d bytes, more than %d", n, wire.MaxEventID)
		}
		if o.EventID == "" || o.Timestamp == "" || !isObject(o.Data) {
			return d, errBody
		}
		return d, nil
	}
	switch d.Type {
	case wire.EnvelopeVerification, wire.EnvelopeGap, wire.EnvelopeTerminated:
		if err := wire.Decode(body, &d.Envelope); err != nil {
			return d, errBody
		}
	default:
		d.Envelope.Type = d.Type
	}
	return d, nil
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }
