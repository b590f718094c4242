package behaviour

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	coalesce "github.com/mcpe-gen/mcpe-gen/golden/coalesce/want"
	"github.com/mcpe-gen/mcpe-gen/golden/coalesce/want/coalesceclient"
	"github.com/mcpe-gen/mcpe-gen/golden/coalesce/want/coalesceserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
)

// COAL-1, COAL-2: a server of generated code publishes the x-coalesce of its event file, and a generated Handle function
// takes it from there: by a key of two places and with all events, and by one with the latest.
func TestCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es := eventstest.NewServer(t)
		updated, err := coalesceserver.RegisterPullRequestUpdated(es, coalesceserver.PullRequestUpdatedHooks{})
		if err != nil {
			t.Fatal(err)
		}
		progressed, err := coalesceserver.RegisterBuildProgressed(es, coalesceserver.BuildProgressedHooks{})
		if err != nil {
			t.Fatal(err)
		}
		seen := make(chan string, 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		c := eventstest.NewClient(t, es)
		go func() {
			done <- client.Consume(ctx, c.Client, client.ConsumeOptions{Store: clientmemory.NewCursors()},
				coalesceclient.HandlePullRequestUpdated(coalesce.PullRequestUpdatedArguments{}, func(ctx context.Context, ev *coalesce.PullRequestUpdatedEvent) error {
					b := client.BurstOf(ctx, ev)
					for _, e := range b.Events {
						seen <- fmt.Sprint(e.Data.Repository, e.Data.PullRequest.Number, " of ", b.Count)
					}
					return nil
				}, client.WithCoalescing()),
				coalesceclient.HandleBuildProgressed(coalesce.BuildProgressedArguments{}, func(ctx context.Context, ev *coalesce.BuildProgressedEvent) error {
					seen <- fmt.Sprint(ev.Data.Build, " of ", client.BurstOf(ctx, ev).Count)
					return nil
				}, client.WithCoalescing()))
		}()
		synctest.Wait()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for _, w := range want {
				select {
				case got := <-seen:
					if got != w {
						t.Errorf("got %s, want %s", got, w)
					}
				default:
					t.Errorf("nothing, want %s", w)
				}
			}
			if len(seen) > 0 {
				t.Errorf("more than %q", want)
			}
		}
		for _, number := range []int64{7, 8, 7} {
			p := coalesce.PullRequestUpdatedPayload{Repository: "r"}
			p.PullRequest.Number = number
			if err := updated.Emit(ctx, p); err != nil {
				t.Fatal(err)
			}
			if err := progressed.Emit(ctx, coalesce.BuildProgressedPayload{Build: "b"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		expect()
		time.Sleep(time.Second)
		expect("b of 3")
		time.Sleep(27 * time.Second)
		expect("r8 of 1")
		time.Sleep(time.Second)
		expect("r7 of 2", "r7 of 2")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
