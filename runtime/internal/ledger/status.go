package ledger

import (
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Status is the state of deliveries to a subscription.
type Status struct {
	// Generation is that of the subscription.
	Generation uint64
	// Progress is stored as Open in or before the commit that moves the shard's checkpoint past an entry that matches
	// the subscription. If it is not open, everything up to the checkpoint is settled.
	Progress store.Progress
	Health   store.Health
	// Rewound is the Number of the latest [Rewind] that was carried out, AgainDone that of the latest [Again], and
	// GapDone the [Subscription.Gap] of the latest envelope about a gap. TopicGapDone is the [Order.Number] of the
	// latest gap of the event type.
	Rewound, AgainDone, GapDone, TopicGapDone uint64
}

// Bytes implements [store.Value].
func (s *Status) Bytes() []byte { return encode(s) }

// A statusJSON is the encoding of a [Status]. The cursor of a check source can be any bytes.
type statusJSON struct {
	Generation     uint64              `json:"generation"`
	Epoch          uint64              `json:"epoch"`
	Base           store.Position      `json:"base"`
	Settled        [][2]store.Position `json:"settled,omitempty"`
	Open           bool                `json:"open,omitempty"`
	Upstream       []byte              `json:"upstream,omitempty"`
	Suspended      bool                `json:"suspended,omitempty"`
	SuspendedAt    time.Time           `json:"suspendedAt,omitzero"`
	FailedSince    time.Time           `json:"failedSince,omitzero"`
	LastDeliveryAt time.Time           `json:"lastDeliveryAt,omitzero"`
	LastError      string              `json:"lastError,omitempty"`
	Rewound        uint64              `json:"rewound,omitempty"`
	AgainDone      uint64              `json:"againDone,omitempty"`
	GapDone        uint64              `json:"gapDone,omitempty"`
	TopicGapDone   uint64              `json:"topicGapDone,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (s *Status) MarshalJSON() ([]byte, error) {
	p, h := &s.Progress, &s.Health
	j := statusJSON{
		Generation: s.Generation, Epoch: p.Epoch, Base: p.Base, Open: p.Open, Upstream: []byte(p.Upstream),
		Suspended: h.Suspended, SuspendedAt: h.SuspendedAt, FailedSince: h.FailedSince, LastDeliveryAt: h.LastDeliveryAt, LastError: h.LastError,
		Rewound: s.Rewound, AgainDone: s.AgainDone, GapDone: s.GapDone, TopicGapDone: s.TopicGapDone,
	}
	for _, span := range p.Settled {
		j.Settled = append(j.Settled, [2]store.Position{span.From, span.To})
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Status) UnmarshalJSON(b []byte) error {
	var j statusJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*s = Status{
		Generation: j.Generation,
		Progress:   store.Progress{Epoch: j.Epoch, Base: j.Base, Open: j.Open, Upstream: string(j.Upstream)},
		Health: store.Health{Suspended: j.Suspended, SuspendedAt: j.SuspendedAt, FailedSince: j.FailedSince,
			LastDeliveryAt: j.LastDeliveryAt, LastError: j.LastError},
		Rewound: j.Rewound, AgainDone: j.AgainDone, GapDone: j.GapDone, TopicGapDone: j.TopicGapDone,
	}
	for _, span := range j.Settled {
		s.Progress.Settled = append(s.Progress.Settled, store.Span{From: span[0], To: span[1]})
	}
	return nil
}
