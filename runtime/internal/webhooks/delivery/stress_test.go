package delivery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// TestStress emits, subscribes, refreshes, looks and unsubscribes at once, in real time: whoever
// stays gets every event.
func TestStress(t *testing.T) {
	const stay, events = 20, 300
	ctx := context.Background()
	db := memory.New()
	s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
		if rand.IntN(8) == 0 {
			time.Sleep(time.Millisecond)
		}
		return 200, nil, nil
	}}
	e := newEngine(t, Options{Sender: s, FlushInterval: time.Millisecond, Workers: 16, PerHost: 8}, db)
	top := newTopic(store.LogOptions{})
	var err error
	if top.track, err = e.whole.OpenLog(ctx, "test", top.Head); err != nil {
		t.Fatal(err)
	}
	top.track.Ready()
	put := func(id string) store.Subscription {
		r := record(id)
		r.URL = fmt.Sprintf("http://host-%d.test/", rand.IntN(5))
		if _, err := db.PutSubscription(ctx, r); err != nil {
			t.Error(err)
		}
		return r
	}
	var handles []*Handle
	for i := range stay {
		h, _ := top.join(t, e, put(fmt.Sprint("stay_", i)), false)
		handles = append(handles, h)
	}
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range events / 3 {
				top.emit(t, fmt.Sprintf("evt_%d_%d", w, i))
				if i%10 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	done := make(chan struct{})
	var noise sync.WaitGroup
	for w := range 3 {
		noise.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				h, _ := top.join(t, e, put(fmt.Sprintf("go_%d_%d", w, i)), false)
				_ = h.Watermark()
				switch i % 3 {
				case 0:
					h.Terminate(wire.ErrorObject{Code: -32012, Message: "Forbidden"})
				case 1:
					h.Gap()
					h.Resume()
				}
				h.Remove()
				stays := handles[rand.IntN(len(handles))]
				stays.Refresh(record(stays.ID()))
				_, _ = stays.Status(), stays.Progress()
				_ = e.Census()
				time.Sleep(time.Millisecond)
			}
		})
	}
	wg.Wait()
	deadline := time.Now().Add(time.Minute)
	want := fmt.Sprint("c", events)
	for _, h := range handles {
		for *h.Watermark() != want {
			if time.Now().After(deadline) {
				t.Fatalf("%s is at %s", h.ID(), *h.Watermark())
			}
			time.Sleep(time.Millisecond)
		}
	}
	close(done)
	noise.Wait()
	shutdown(t, e)
	got := map[string]int{}
	for _, g := range s.all() {
		if g.kind == "" {
			got[g.sub+" "+g.id]++
		}
	}
	for _, h := range handles {
		for w := range 3 {
			for i := range events / 3 {
				if n := got[fmt.Sprintf("%s evt_%d_%d", h.ID(), w, i)]; n != 1 {
					t.Fatalf("%s got evt_%d_%d %d times", h.ID(), w, i, n)
				}
			}
		}
	}
	mark, err := db.Mark(ctx, "test")
	if err != nil || mark != events {
		t.Errorf("the mark is %d, %v", mark, err)
	}
	for _, h := range handles {
		r, _, err := db.Subscription(ctx, h.ID())
		if err != nil || r.Progress.Open {
			t.Errorf("%s is stored as %+v, %v", h.ID(), r.Progress, err)
		}
	}
}
