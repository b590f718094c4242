package delivery

import (
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A controlEnvelope is a pending control envelope (HOOK-7). Its result affects neither the endpoint's health nor the
// watermark (D7).
type controlEnvelope struct {
	retryState
	id   string // webhook-id of all attempts
	kind string
	err  wire.ErrorObject // of a termination
	sent chan struct{}    // closed after the first attempt; nil for a termination
}

func newGap() *controlEnvelope {
	return &controlEnvelope{id: webhook.NewMessageID(wire.EnvelopeGap), kind: wire.EnvelopeGap, sent: make(chan struct{})}
}

func newTermination(err wire.ErrorObject) *controlEnvelope {
	return &controlEnvelope{id: webhook.NewMessageID(wire.EnvelopeTerminated), kind: wire.EnvelopeTerminated, err: err}
}

// notifyGap calls Options.Gapped. It must be called before progress moves past the gap (D7).
func (e *Engine) notifyGap(h *Handle) {
	if e.o.Gapped != nil {
		e.o.Gapped(h)
	}
}

// addGap queues a gap envelope and returns it.
func (h *Handle) addGap() *controlEnvelope {
	h.gapped = true
	for _, c := range h.controls {
		if c.busy {
			continue
		}
		if c.attempts == 0 {
			return c // not sent yet: it also covers this gap
		}
		// A receiver may have received the old envelope and would ignore another attempt as a duplicate. A new
		// envelope covers both gaps.
		h.removeControl(c)
		break
	}
	c := newGap()
	h.controls = append(h.controls, c)
	h.e.markDirty(h)
	return c
}

// controlBody builds the envelope for one attempt.
func (e *Engine) controlBody(h *Handle, c *controlEnvelope) ([]byte, error) {
	if c.kind == wire.EnvelopeTerminated {
		return webhook.Terminated(webhook.ErrorObject(c.err))
	}
	return webhook.Gap(h.Watermark())
}

// removeControl removes c from the pending envelopes.
func (h *Handle) removeControl(c *controlEnvelope) {
	for i, o := range h.controls {
		if o == c {
			h.controls = append(h.controls[:i:i], h.controls[i+1:]...)
			return
		}
	}
}
