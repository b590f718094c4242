package events_test

import (
	"encoding/json"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
)

// benchPayload is a payload of about 200 bytes as the examples have them.
type benchPayload struct {
	IncidentID string       `json:"incidentId"`
	Severity   Severity     `json:"severity"`
	Service    *string      `json:"service,omitzero"`
	Reporter   *benchPerson `json:"reporter,omitzero"`
	OpenedAt   string       `json:"openedAt"`
	Count      int64        `json:"count"`
	Tags       []string     `json:"tags"`
}

type benchPerson struct {
	ID   string  `json:"id"`
	Name *string `json:"name,omitzero"`
}

type generatedPayload struct {
	IncidentID string           `json:"incidentId"`
	Severity   Severity         `json:"severity"`
	Service    *string          `json:"service,omitzero"`
	Reporter   *generatedPerson `json:"reporter,omitzero"`
	OpenedAt   string           `json:"openedAt"`
	Count      int64            `json:"count"`
	Tags       []string         `json:"tags"`
}

type generatedPerson struct {
	ID   string  `json:"id"`
	Name *string `json:"name,omitzero"`
}

func (v *generatedPerson) UnmarshalJSON(data []byte) error {
	type plain generatedPerson
	return codec.Decode(data, (*plain)(v))
}

func (v generatedPerson) MarshalJSON() ([]byte, error) {
	type plain generatedPerson
	return codec.Encode((plain)(v))
}

func (v *generatedPayload) UnmarshalJSON(data []byte) error {
	type plain generatedPayload
	return codec.Decode(data, (*plain)(v))
}

func (v generatedPayload) MarshalJSON() ([]byte, error) {
	type plain generatedPayload
	return codec.Encode((plain)(v))
}

var benchText = []byte(`{"incidentId":"INC-20261120-0001","severity":"P1","service":"checkout-api","reporter":{"id":"user_1234","name":"Ann Example"},"openedAt":"2026-11-20T07:59:58.123Z","count":12,"tags":["payments","eu"]}`)

func BenchmarkDecode(b *testing.B) {
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v benchPayload
			if err := json.Unmarshal(benchText, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v generatedPayload
			if err := v.UnmarshalJSON(benchText); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("generated-by-encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v generatedPayload
			if err := json.Unmarshal(benchText, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	var plain benchPayload
	var generated generatedPayload
	if json.Unmarshal(benchText, &plain) != nil || generated.UnmarshalJSON(benchText) != nil {
		b.Fatal("payload")
	}
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(&plain); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := codec.Encode(&generated); err != nil {
				b.Fatal(err)
			}
		}
	})
}
