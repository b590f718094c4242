package webhook

import (
	"encoding/json"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// ErrTooLarge reports a body larger than [MaxBody].
var ErrTooLarge = errors.New("webhook: the body is larger than 256 KiB")

// An Occurrence is one event in the form of a delivery's body.
type Occurrence struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"` // RFC 3339
	Data      json.RawMessage `json:"data"`
	// Cursor is the position after the event; nil for a type without replay.
	Cursor *string         `json:"cursor,omitempty"`
	Meta   json.RawMessage `json:"_meta,omitempty"`
}

// MaxBody is the size in bytes of the largest body that a server posts. See HOOK-1.
const MaxBody = wire.MaxBody

// Well-known paths. PathReceivers on the callback's origin lists the paths that consent to receive deliveries;
// PathKeySet on the server's origin holds the public keys of its v1a signatures. See VER-1, HOOK-10.
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

// An Envelope is a control envelope: a body that is not an occurrence. Type is always set. A verification has a
// Challenge (VER-2), a gap a Cursor, and a termination an Error (HOOK-7).
type Envelope struct {
	Type      string       `json:"type"`
	Challenge string       `json:"challenge,omitempty"`
	Cursor    *string      `json:"cursor,omitempty"`
	Error     *ErrorObject `json:"error,omitempty"`
}

// An ErrorObject is the JSON-RPC error in a termination.
type ErrorObject struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Body builds the body of a delivery from o. The given cursor replaces o.Cursor; nil, for a type without replay,
// becomes null. Body copies Data and Meta unchanged. Call it for each attempt, because each attempt computes the
// cursor (HOOK-1). It returns [ErrTooLarge] or an error about invalid UTF-8. See OCC-3, HOOK-6.
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
	return bounded(append(b, '}'), errors.Join(errs[:]...))
}

// Gap builds the envelope that reports occurrences that can no longer be delivered. Delivery continues after cursor,
// which is nil for a type without replay. See HOOK-7.
func Gap(cursor *string) ([]byte, error) {
	b, err := appendCursor([]byte(`{"type":"`+wire.EnvelopeGap+`","cursor":`), cursor)
	return bounded(append(b, '}'), err)
}

// Terminated builds the envelope that ends a subscription. See HOOK-7.
func Terminated(e ErrorObject) ([]byte, error) {
	b, err := jsonv2.Marshal(Envelope{Type: wire.EnvelopeTerminated, Error: &e})
	return bounded(b, err)
}

// Verification builds the envelope that carries the challenge of the handshake. See VER-2.
func Verification(challenge string) ([]byte, error) {
	b, err := jsonv2.Marshal(Envelope{Type: wire.EnvelopeVerification, Challenge: challenge})
	return bounded(b, err)
}

func appendCursor(b []byte, cursor *string) ([]byte, error) {
	if cursor == nil {
		return append(b, "null"...), nil
	}
	return jsontext.AppendQuote(b, *cursor)
}

func bounded(b []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, fmt.Errorf("webhook: build body: %w", err)
	}
	if len(b) > wire.MaxBody {
		return nil, ErrTooLarge
	}
	return b, nil
}

// errBody reports a body that is not a valid message, although its signature may be valid.
var errBody = errors.New("webhook: the body is neither an occurrence nor a control envelope")

// A Delivery is one verified message that a receiver passes to its handler. Its content comes from the server and is
// untrusted input (CLI-10).
type Delivery struct {
	Stamp
	// Subscription is the X-MCP-Subscription-Id header, or "" if the server sent none.
	Subscription string
	// Type is the type of a control envelope, or "" for an occurrence. It is verification, gap, terminated, or a type
	// unknown to this package, for which Envelope holds only the type.
	Type string
	// Occurrence is set if Type is "".
	Occurrence Occurrence
	// Envelope is set if Type is not "".
	Envelope Envelope
	// Body holds the signed bytes of the message.
	Body []byte
}

// Cursor returns the message's cursor: the position after an occurrence, or after a gap. It is nil if the cursor is
// null or missing; never persist a nil cursor (CLI-6).
func (d *Delivery) Cursor() *string {
	if d.Type == "" {
		return d.Occurrence.Cursor
	}
	return d.Envelope.Cursor
}

// key identifies repeated deliveries to one endpoint. The key of an occurrence is its eventId, whatever its
// webhook-id; the key of an envelope is its webhook-id. The two kinds of key never collide (CLI-5, D10).
func (d *Delivery) key() string {
	if d.Type == "" {
		return "event " + d.Occurrence.EventID
	}
	return "message " + d.ID
}

// ParseDelivery parses a body whose signature is already verified. Member names must match exactly and be unique, and
// the body must be valid UTF-8. The escape of a lone surrogate, such as half of a truncated emoji, becomes U+FFFD,
// except in eventId, name and cursor, where it is an error. A body whose top-level type is a non-empty string is a
// control envelope, whatever its other members; any other body must be an occurrence. Its eventId is 1 to 256 bytes of
// any text and need not equal the webhook-id (CLI-5, D10). Its name may be missing, as in a poll, because the
// subscription implies it. Errors do not quote the body.
func ParseDelivery(stamp Stamp, body []byte) (Delivery, error) {
	d := Delivery{Stamp: stamp, Body: body}
	// Only these two members determine the kind of message. The others are decoded afterwards, so that a member of a
	// later revision cannot make a known message unreadable.
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
