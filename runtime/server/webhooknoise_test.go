package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// HOOK-4, VER-2: the answer to its challenge shows that a newcomer is quick. It gets its first event while
// many principals' endpoints at the same host, which nobody has challenged, hang.
func TestHOOK4ChallengeIsProof(t *testing.T) {
	trusted := func(o *Options) { o.webhook().AllowReceivers = []string{"http://receiver.test/trusted"} }
	bubble(t, trusted, func(t *testing.T, w *world) {
		w.r.on(func(_ http.ResponseWriter, d *delivered) bool {
			if strings.Contains(d.url, "/trusted/") {
				time.Sleep(4 * time.Second)
				return true
			}
			return false
		})
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		for i := range 30 {
			w.subscribe(fmt.Sprint("ann", i), params(fmt.Sprint("http://receiver.test/trusted/", i), secretA, ""))
		}
		const callback = "http://receiver.test/newcomer"
		w.subscribe("bob", params(callback, secretA, ""))
		w.settle(time.Second)
		emit(t, e, incident{ID: "x1"})
		w.settle(100 * time.Millisecond)
		hanging, arrived := 0, false
		for _, d := range w.r.all() {
			if d.url == callback {
				arrived = true
			} else {
				hanging++
			}
		}
		if hanging == 0 || !arrived {
			t.Errorf("%d hang, the newcomer's arrived: %v", hanging, arrived)
		}
	})
}
