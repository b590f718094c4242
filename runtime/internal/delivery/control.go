package delivery

import (
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A control is a control envelope on its way (HOOK-7). What becomes of it concerns nobody: neither
// health nor watermark (D7).
type control struct {
	try
	id   string // webhook-id of all attempts
	kind string
	err  wire.ErrorObject // of a termination
}

func newGap() *control {
	return &control{id: webhook.NewMessageID(wire.EnvelopeGap), kind: wire.EnvelopeGap}
}

func newTermination(err wire.ErrorObject) *control {
	return &control{id: webhook.NewMessageID(wire.EnvelopeTerminated), kind: wire.EnvelopeTerminated, err: err}
}

// gapped tells the caller of a gap. It comes before anything that moves past the gap (D7).
func (e *Engine) gapped(h *Handle) {
	if e.o.Gapped != nil {
		e.o.Gapped(h)
	}
}

// addGap puts a gap envelope on its way.
func (h *Handle) addGap() {
	h.gapped = true
	for _, c := range h.controls {
		if c.busy {
			continue
		}
		if c.attempts == 0 {
			return // nobody has seen it: it tells of this gap as well
		}
		// A receiver may have seen that one without saying so and would take another attempt for
		// a repetition. A new one tells of both.
		h.drop(c)
		break
	}
	h.controls = append(h.controls, newGap())
	h.e.changed(h)
}

// controlBody builds the envelope for one attempt.
func (e *Engine) controlBody(h *Handle, c *control) ([]byte, error) {
	if c.kind == wire.EnvelopeTerminated {
		return webhook.Terminated(webhook.ErrorObject(c.err))
	}
	return webhook.Gap(h.Watermark())
}

// drop forgets c.
func (h *Handle) drop(c *control) {
	for i, o := range h.controls {
		if o == c {
			h.controls = append(h.controls[:i:i], h.controls[i+1:]...)
			return
		}
	}
}
