package delivery

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A walk over many subscriptions lets others in between, who add and end some meanwhile.
func TestWalkLetsOthersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Options{Sender: &script{}})
		top := newTopic(store.LogOptions{})
		var all []*Handle
		for i := range 3 * visitStep {
			h, _ := top.join(t, e, record(fmt.Sprint("sub_", i)), false)
			all = append(all, h)
		}
		synctest.Wait()
		seen, others := map[*Handle]int{}, make(chan int)
		go func() {
			for i := range visitStep {
				all[i].Remove()
				top.join(t, e, record(fmt.Sprint("new_", i)), false)
			}
			close(others)
		}()
		e.visitHandles(func(h *Handle) {
			seen[h]++
			if len(seen) == visitStep {
				e.mu.Unlock() // as the walk does itself between its steps
				<-others
				e.mu.Lock()
			}
		})
		for i, h := range all {
			if n := seen[h]; n > 1 || n == 0 && i >= visitStep {
				t.Errorf("subscription %d was seen %d times", i, n)
			}
		}
		shutdown(t, e)
	})
}
