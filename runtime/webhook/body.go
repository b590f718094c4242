package webhook

import (
	"encoding/json"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// ErrTooLarge is a body above [MaxBody].
var ErrTooLarge = errors.New("webhook: the body is larger than 256 KiB")

// An Occurrence is one event as a body carries it.
type Occurrence struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"` // RFC 3339
	Data      json.RawMessage `json:"data"`
	// Cursor is the position after the event, nil for a type without replay.
	Cursor *string         `json:"cursor,omitempty"`
	Meta   json.RawMessage `json:"_meta,omitempty"`
}

// MaxBody is the largest body that a server posts, in bytes. See HOOK-1.
const MaxBody = wire.MaxBody

// Documents at well-known places: on the callback's origin the paths that consent to be called,
// on the server's origin the public keys of its v1a signatures. See VER-1, HOOK-10.
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

// An Envelope is a control envelope: a body that is no occurrence. Type is always set; Challenge
// belongs to a verification (VER-2), Cursor to a gap and Error to a termination (HOOK-7).
type Envelope struct {
	Type      string       `json:"type"`
	Challenge string       `json:"challenge,omitempty"`
	Cursor    *string      `json:"cursor,omitempty"`
	Error     *ErrorObject `json:"error,omitempty"`
}

// An ErrorObject is a JSON-RPC error as a termination carries it.
type ErrorObject struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Body builds the body of a delivery: o with the given cursor, which replaces o.Cursor and is null
// for a type without replay. Data and Meta are copied as they are. It is called for each attempt,
// because the cursor is computed then (HOOK-1). Errors are [ErrTooLarge] or about invalid UTF-8.
// See OCC-3, HOOK-6.
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

// Gap builds the envelope that tells of occurrences that cannot be delivered any more; cursor is
// where delivery goes on, null for a type without replay. See HOOK-7.
func Gap(cursor *string) ([]byte, error) {
	b, err := appendCursor([]byte(`{"type":"`+wire.EnvelopeGap+`","cursor":`), cursor)
	return bounded(append(b, '}'), err)
}

// Terminated builds the envelope that ends a subscription. See HOOK-7.
func Terminated(e ErrorObject) ([]byte, error) {
	b, err := jsonv2.Marshal(Envelope{Type: wire.EnvelopeTerminated, Error: &e})
	return bounded(b, err)
}

// Verification builds the challenge of the handshake. See VER-2.
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

// errBody is a body that is no message, however well it is signed.
var errBody = errors.New("webhook: the body is neither an occurrence nor a control envelope")

// A Delivery is one verified message as a receiver hands it over. Its content comes from the
// server and is untrusted input (CLI-10).
type Delivery struct {
	Stamp
	// Subscription is the X-MCP-Subscription-Id, or "" when the server sent none.
	Subscription string
	// Type is "" for an occurrence, else the type of a control envelope: verification, gap, terminated,
	// or one that this package does not know, of which Envelope holds the type only.
	Type string
	// Occurrence is set when Type is "".
	Occurrence Occurrence
	// Envelope is set when Type is not "".
	Envelope Envelope
	// Body is the message as it was signed.
	Body []byte
}

// Cursor is the position that the message carries: that of an occurrence, or where delivery goes
// on after a gap; nil for null and none. It must not be persisted when nil (CLI-6).
func (d *Delivery) Cursor() *string {
	if d.Type == "" {
		return d.Occurrence.Cursor
	}
	return d.Envelope.Cursor
}

// key tells repeated deliveries to one endpoint apart: an occurrence is known by its eventId under
// whatever webhook-id it comes, an envelope by its webhook-id, and neither is ever taken for the other
// (CLI-5, D10).
func (d *Delivery) key() string {
	if d.Type == "" {
		return "event " + d.Occurrence.EventID
	}
	return "message " + d.ID
}

// ParseDelivery reads a body whose signature was verified before: exact member names, no duplicates,
// valid UTF-8; the escape of a lone surrogate, such as half of a cut emoji, is read as U+FFFD, except in eventId, name and
// cursor, where it is refused. A body whose top-level type is a string that is not empty is a control envelope,
// whatever else it has; anything else has to be an occurrence, whose eventId, 1 to 256 bytes of any text,
// need not be the webhook-id (CLI-5, D10), and whose name may be missing, as in a poll: the subscription tells. The error says no more than what is wrong.
func ParseDelivery(stamp Stamp, body []byte) (Delivery, error) {
	d := Delivery{Stamp: stamp, Body: body}
	// Only these two members decide what it is; anything else is read once that is known, so
	// that a member of a later revision cannot make a known message unreadable.
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
