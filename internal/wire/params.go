package wire

import (
	"encoding/json"
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// SubscribeParams are the params of events/subscribe (SUB-1). A nil Cursor requests events from now on.
type SubscribeParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Delivery  Delivery        `json:"delivery"`
	Cursor    *string         `json:"cursor"`
	MaxAgeMs  *int64          `json:"maxAgeMs,omitempty"`
	// TTLMs is nil if it is absent. NoExpiry is set if ttlMs is null (SUB-6).
	TTLMs    *int64 `json:"ttlMs,omitempty"`
	NoExpiry bool   `json:"-"`
}

// UnsubscribeParams are the params of events/unsubscribe (SUB-9).
type UnsubscribeParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Delivery  Delivery        `json:"delivery"`
}

// A Delivery is the delivery target of a webhook subscription.
type Delivery struct {
	Mode   string `json:"mode,omitempty"`
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"`
}

// The decoders below decode the params of the five methods strictly. Names must match exactly, unknown members are
// ignored (CAP-4), and duplicate members are errors. Absent params are {}. The error is a *FieldErrors with every
// invalid field, for the data of an InvalidParams error. The decoders check shape and range, but nothing that depends
// on the event type. Arguments stay raw; absent and null are nil.

// DecodeListParams decodes the params of events/list.
func DecodeListParams(raw json.RawMessage) (ListParams, error) {
	var p ListParams
	var cursor *string
	var r paramsReader
	err := r.read(raw, func(name []byte, val jsontext.Value) {
		if string(name) == "cursor" {
			r.readText("/cursor", val, &cursor, true)
		}
	})
	if cursor != nil {
		p.Cursor = *cursor
	}
	return p, r.result(err)
}

// readSharedMember decodes a member that all requests for occurrences share.
func (r *paramsReader) readSharedMember(name []byte, val jsontext.Value, event **string, arguments *json.RawMessage,
	cursor **string, maxAge **int64) {
	switch string(name) {
	case "name":
		r.readText("/name", val, event, false)
	case "arguments":
		r.arguments(val, arguments)
	case "cursor":
		r.readText("/cursor", val, cursor, true)
	case "maxAgeMs":
		r.readInteger("/maxAgeMs", val, maxAge, 0)
	}
}

// DecodePollParams decodes the params of events/poll. It clamps large integers to int64, because servers limit them
// further (POLL-4, POLL-9).
func DecodePollParams(raw json.RawMessage) (PollParams, error) {
	var p PollParams
	var event *string
	var r paramsReader
	err := r.read(raw, func(name []byte, val jsontext.Value) {
		switch string(name) {
		case "maxEvents":
			r.readInteger("/maxEvents", val, &p.MaxEvents, 1)
		case "timeoutMs":
			r.readInteger("/timeoutMs", val, &p.TimeoutMs, 0)
		default:
			r.readSharedMember(name, val, &event, &p.Arguments, &p.Cursor, &p.MaxAgeMs)
		}
	})
	p.Name = r.requireText("/name", event)
	return p, r.result(err)
}

// DecodeStreamParams decodes the params of events/stream.
func DecodeStreamParams(raw json.RawMessage) (StreamParams, error) {
	var p StreamParams
	var event *string
	var r paramsReader
	err := r.read(raw, func(name []byte, val jsontext.Value) {
		r.readSharedMember(name, val, &event, &p.Arguments, &p.Cursor, &p.MaxAgeMs)
	})
	p.Name = r.requireText("/name", event)
	return p, r.result(err)
}

// DecodeSubscribeParams decodes the params of events/subscribe. Delivery.Mode may be any string. URL and Secret are
// required only for webhook, so a server can reject any other mode with Unsupported (SUB-1). ttlMs has no range
// (SUB-6).
func DecodeSubscribeParams(raw json.RawMessage) (SubscribeParams, error) {
	var p SubscribeParams
	var event *string
	var delivery jsontext.Value
	var r paramsReader
	err := r.read(raw, func(name []byte, val jsontext.Value) {
		switch string(name) {
		case "delivery":
			delivery = val.Clone()
		case "ttlMs":
			p.NoExpiry = val.Kind() == 'n'
			r.readInteger("/ttlMs", val, &p.TTLMs, math.MinInt64)
		default:
			r.readSharedMember(name, val, &event, &p.Arguments, &p.Cursor, &p.MaxAgeMs)
		}
	})
	p.Name = r.requireText("/name", event)
	var mode, url, secret *string
	if r.readObject("/delivery", delivery, func(name []byte, val jsontext.Value) {
		switch string(name) {
		case "mode":
			r.readText("/delivery/mode", val, &mode, false)
		case "url":
			r.readText("/delivery/url", val, &url, false)
		case "secret":
			r.readText("/delivery/secret", val, &secret, false)
		}
	}) {
		p.Delivery.Mode = r.requireText("/delivery/mode", mode)
		if p.Delivery.Mode == ModeWebhook {
			p.Delivery.URL = r.requireText("/delivery/url", url)
			p.Delivery.Secret = r.requireText("/delivery/secret", secret)
		}
	}
	return p, r.result(err)
}

// DecodeUnsubscribeParams decodes the params of events/unsubscribe. Delivery.Mode is ignored (SUB-9).
func DecodeUnsubscribeParams(raw json.RawMessage) (UnsubscribeParams, error) {
	var p UnsubscribeParams
	var event *string
	var delivery jsontext.Value
	var r paramsReader
	err := r.read(raw, func(name []byte, val jsontext.Value) {
		switch string(name) {
		case "name":
			r.readText("/name", val, &event, false)
		case "arguments":
			r.arguments(val, &p.Arguments)
		case "delivery":
			delivery = val.Clone()
		}
	})
	p.Name = r.requireText("/name", event)
	var url *string
	if r.readObject("/delivery", delivery, func(name []byte, val jsontext.Value) {
		if string(name) == "url" {
			r.readText("/delivery/url", val, &url, false)
		}
	}) {
		p.Delivery.URL = r.requireText("/delivery/url", url)
	}
	return p, r.result(err)
}
