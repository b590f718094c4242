package events_test

import (
	"encoding/json"
	"math/big"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// The types below have the shape that the generator gives them.

type Severity string

type Level int64

type Person struct {
	ID   string  `json:"id"`
	Name *string `json:"name,omitzero"`
}

func (v *Person) UnmarshalJSON(data []byte) error {
	type plain Person
	return codec.Decode(data, (*plain)(v))
}

func (v Person) MarshalJSON() ([]byte, error) {
	type plain Person
	return codec.Encode((plain)(v))
}

type Incident struct {
	IncidentID string                  `json:"incidentId"`
	Severity   Severity                `json:"severity"`
	Service    *string                 `json:"service,omitzero"`
	Reporter   *Person                 `json:"reporter,omitzero"`
	OpenedAt   events.Time             `json:"openedAt"`
	ClosedAt   *events.Time            `json:"closedAt,omitzero"`
	Count      int64                   `json:"count"`
	Level      *Level                  `json:"level,omitzero"`
	Small      *int8                   `json:"small,omitzero"`
	Unsigned   *uint16                 `json:"unsigned,omitzero"`
	Exact      *json.Number            `json:"exact,omitzero"`
	Huge       *big.Int                `json:"huge,omitzero"`
	Blob       []byte                  `json:"blob,omitzero"`
	Tags       []string                `json:"tags"`
	Labels     map[string]string       `json:"labels"`
	People     []Person                `json:"people,omitzero"`
	Note       events.Optional[string] `json:"note,omitzero"`
	Score      events.Optional[int64]  `json:"score,omitzero"`
	Owner      events.Optional[Person] `json:"owner,omitzero"`
	Parent     *Incident               `json:"parent,omitzero"`
}

func (v *Incident) UnmarshalJSON(data []byte) error {
	type plain Incident
	return codec.Decode(data, (*plain)(v))
}

func (v Incident) MarshalJSON() ([]byte, error) {
	type plain Incident
	return codec.Encode((plain)(v))
}

type Open struct {
	A     string                     `json:"a"`
	Extra map[string]json.RawMessage `json:",embed,unknown"`
}

func (v *Open) UnmarshalJSON(data []byte) error {
	type plain Open
	return codec.Decode(data, (*plain)(v))
}

func (v Open) MarshalJSON() ([]byte, error) {
	type plain Open
	return codec.Encode((plain)(v))
}

type Scores struct {
	Total int64            `json:"total"`
	Extra map[string]int64 `json:",embed,unknown"`
}

func (v *Scores) UnmarshalJSON(data []byte) error {
	type plain Scores
	return codec.Decode(data, (*plain)(v))
}

func (v Scores) MarshalJSON() ([]byte, error) {
	type plain Scores
	return codec.Encode((plain)(v))
}
