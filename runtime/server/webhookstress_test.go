package server

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// TestStorm subscribes, refreshes, unsubscribes, revokes, changes the type and emits all at once:
// nothing locks up, OnSubscribe and OnUnsubscribe come in pairs, and when all is unsubscribed
// nothing is left (trap 6, trap 7, SRV-3).
func TestStorm(t *testing.T) {
	for range 2 {
		bubble(t, durably, func(t *testing.T, w *world) {
			var mu sync.Mutex
			on := map[string]int{}
			h := Hooks[filterArgs, incident]{
				OnSubscribe: func(_ context.Context, s Subscription, _ *filterArgs) error {
					mu.Lock()
					defer mu.Unlock()
					if on[s.ID]++; on[s.ID] != 1 {
						t.Errorf("OnSubscribe %d times", on[s.ID])
					}
					return nil
				},
				OnUnsubscribe: func(_ context.Context, s Subscription, _ *filterArgs) {
					mu.Lock()
					defer mu.Unlock()
					if on[s.ID]--; on[s.ID] != 0 {
						t.Errorf("OnUnsubscribe without OnSubscribe")
					}
				},
			}
			e := register(t, w.Server, "e", h)
			w.r.on(func(rw http.ResponseWriter, d *delivered) bool {
				time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
				if d.body.Type == "" && rand.IntN(3) == 0 {
					rw.WriteHeader(500)
					return true
				}
				return false
			})
			unsubscribe := func(principal string, level int) {
				call(w.Server, principal, wire.MethodUnsubscribe, fmt.Sprintf(`{"name":"e","arguments":{"minLevel":%d},"delivery":{"url":%q}}`, level, plain))
			}
			var wg sync.WaitGroup
			for range 30 {
				wg.Go(func() {
					for range 15 {
						time.Sleep(time.Duration(rand.IntN(2000)) * time.Millisecond)
						principal, level := fmt.Sprint("p", rand.IntN(3)), rand.IntN(3)
						switch rand.IntN(10) {
						case 0, 1:
							unsubscribe(principal, level)
						case 2:
							w.Revoke(context.Background(), principal)
						case 3:
							e.Emit(context.Background(), incident{ID: "x", Level: 10})
						case 4:
							typ := incidentType("e")
							typ.Description = fmt.Sprint(rand.Int())
							if rand.IntN(2) == 0 {
								typ.InputSchema = json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"minLevel":{"type":"number","minimum":-%d}}}`, rand.IntN(3)))
								typ.Match = nil
							}
							Register(w.Server, typ, h)
						case 5:
							w.Admin().Replay(context.Background(), wire.SubscriptionID("webhook", principal, plain, "e", fmt.Appendf(nil, `{"minLevel":%d}`, level)), "", 0)
						default:
							ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(3000))*time.Millisecond)
							w.inside().Call(ctx, port.Request{Method: wire.MethodSubscribe, Principal: principal, Params: json.RawMessage(params(plain, secretA,
								fmt.Sprintf(`,"arguments":{"minLevel":%d},"ttlMs":%d`, level, 60_000+rand.IntN(2)*3_000_000)))})
							cancel()
						}
					}
				})
			}
			wg.Wait()
			w.settle(2 * time.Minute)
			for p := range 3 {
				for level := range 3 {
					unsubscribe(fmt.Sprint("p", p), level)
				}
			}
			synctest.Wait()
			w.nothingLeft(nil)
			mu.Lock()
			defer mu.Unlock()
			for id, n := range on {
				if n != 0 {
					t.Errorf("%s: %d OnSubscribe without OnUnsubscribe", id, n)
				}
			}
		})
	}
}
