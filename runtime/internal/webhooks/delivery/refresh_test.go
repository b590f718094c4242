package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Trap 6, SUB-5: a refresh of a record of another generation, or of one whose time was over before the
// engine's timer came to it, changes nothing. [Handle.Refresh] carries it.
func TestTrap6RefreshOfWhatIsOver(t *testing.T) {
	for name, spoil := range map[string]func(h *Handle, r *store.Subscription){
		"another generation": func(_ *Handle, r *store.Subscription) { r.Generation++ },
		"expired, the timer is late": func(h *Handle, _ *store.Subscription) {
			h.e.mu.Lock()
			defer h.e.mu.Unlock()
			h.expires = instantOf(time.Now())
		},
		"removed": func(h *Handle, _ *store.Subscription) {
			h.e.mu.Lock()
			defer h.e.mu.Unlock()
			h.phase = ended
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, Options{Sender: &script{}})
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				r := record("sub_1")
				r.ExpiresAt = time.Now().Add(time.Minute)
				h, _ := top.join(t, e, r, false)
				spoil(h, &r)
				was := h.expires
				r.ExpiresAt = time.Now().Add(time.Hour)
				if _, ok := h.Refresh(r); ok || h.expires != was {
					t.Errorf("refreshed: %v, it expires at %v, before that at %v", ok, h.expires, was)
				}
				h.e.mu.Lock()
				h.phase = delivering
				h.e.mu.Unlock()
			})
		})
	}
}
