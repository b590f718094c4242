package streaming

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// follow opens a follower that must open. It is closed in the end.
func (b *bed) follow(r Request) *Follower {
	b.t.Helper()
	f, err := b.Follow(b.t.Context(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

// found is what Next gives within a minute, in short.
func (b *bed) found(f *Follower) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	next, err := f.Next(ctx)
	if err != nil {
		var e *events.Error
		if errors.As(err, &e) {
			return "refused " + string(e.Data)
		}
		return err.Error()
	}
	if next.Cursor != f.Passed() {
		b.t.Errorf("the cursor is %q, passed is %q", next.Cursor, f.Passed())
	}
	var all []string
	if next.Gap {
		all = append(all, "gap")
	}
	for _, o := range next.Occurrences {
		all = append(all, o.ID)
	}
	return strings.Join(all, " ")
}

func (b *bed) next(f *Follower, want string) {
	b.t.Helper()
	if got := b.found(f); got != want {
		b.t.Errorf("%q, want %q", got, want)
	}
}

// A follower begins at the head after the hooks or after a cursor, and gives what matches; what it cannot have is left
// out and logged.
func TestFollow(t *testing.T) {
	inBubble(t, Options{MaxStreams: 1}, emits, func(b *bed) {
		b.Refuse("spoiled", errTest)
		b.Emit(incident{ID: "before", Severity: "P1"})
		f := b.follow(b.request(`{"severity":"P1"}`))
		start := f.Passed()
		for _, i := range []incident{{ID: "1", Severity: "P1"}, {ID: "2", Severity: "P2"}, {ID: "spoiled", Severity: "P1"}, {ID: "3", Severity: "P1"}} {
			b.Emit(i)
		}
		b.next(f, "1 3")
		if !strings.Contains(b.log(), errTest.Error()) {
			b.t.Errorf("the author hears nothing: %s", b.log())
		}
		b.next(f, context.DeadlineExceeded.Error())
		r := b.request(`{}`)
		r.Replay = from(start)
		again := b.follow(r)
		b.next(again, "1 2 3")
		again.Close()
		again.Close()
		b.next(again, errClosed.Error())
		b.hooks("on", "on", "off")
		f.Close()
	})
}

// PUSH-7: a follower tells of what it lost, at its beginning and later.
func TestFollowGap(t *testing.T) {
	inBubble(t, Options{}, eventtypetest.Options{Emits: true, Kept: topic.Kept{MaxCount: 2}}, func(b *bed) {
		r := b.request(`{}`)
		r.Replay = from("AQEgarbage")
		f := b.follow(r)
		b.next(f, "gap")
		for _, id := range []string{"1", "2", "3", "4"} {
			b.Emit(incident{ID: id})
		}
		b.next(f, "gap")
		b.next(f, "3 4")
		f.Close()
	})
}

// What ends a stream ends a follower: Next says why.
func TestFollowEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(b *bed, f *Follower)
		want string
	}{
		"all end":                  {func(b *bed, _ *Follower) { b.Streams.Close() }, events.ErrClosed.Error()},
		"it is closed":             {func(_ *bed, f *Follower) { f.Close() }, errClosed.Error()},
		"its type is removed":      {func(b *bed, _ *Follower) { b.Remove(); b.Ring(b.Type) }, `refused {"kind":"event"}`},
		"hooks refuse it (AUTH-2)": {func(b *bed, _ *Follower) { b.forbid(events.Forbidden("no more")) }, `refused {"reason":"no more"}`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{Reauthorize: 10 * time.Second}, emits, func(b *bed) {
				f := b.follow(b.request(`{}`))
				time.AfterFunc(time.Second, func() { c.end(b, f) })
				b.next(f, c.want)
				f.Close()
				synctest.Wait()
				b.hooks("on", "off")
			})
		})
	}
}

// A follower goes on after failures of its log or its check, which it leaves alone for a while.
func TestFollowFailures(t *testing.T) {
	log := new(brokenLog)
	inBubble(t, Options{}, eventtypetest.Options{Emits: true, Log: log.open}, func(b *bed) {
		f := b.follow(b.request(`{}`))
		log.set(true)
		for range 100 { // more than are kept decoded
			b.Emit(incident{ID: time.Now().Format(time.RFC3339Nano)})
			time.Sleep(time.Millisecond)
		}
		b.next(f, context.DeadlineExceeded.Error())
		log.set(false)
		if got := strings.Fields(b.found(f)); len(got) != 100 {
			b.t.Errorf("%d occurrences after the failure", len(got))
		}
		f.Close()
		if n := strings.Count(b.log(), errTest.Error()); n < 30 || n > 70 {
			b.t.Errorf("%d tries within a minute", n)
		}
	})
	inBubble(t, Options{}, eventtypetest.Options{Checks: true}, func(b *bed) {
		f := b.follow(b.request(`{}`))
		b.Fail(errTest)
		time.AfterFunc(20*time.Second, func() { b.Put("1"); b.Fail(nil) })
		b.next(f, "1")
		f.Close()
	})
	inBubble(t, Options{}, eventtypetest.Options{Checks: true}, func(b *bed) {
		b.Fail(errTest)
		if _, err := b.Follow(b.t.Context(), b.request(`{}`)); err == nil {
			b.t.Error("a check that fails has a start")
		}
	})
}

// PUSH-7: a follower that falls out of retention while it reads learns of the loss after what came before it and before
// what follows.
func TestFollowGapAfterEvents(t *testing.T) {
	log := new(fadingLog)
	inBubble(t, Options{}, eventtypetest.Options{Emits: true, Kept: topic.Kept{MaxCount: 100}, Log: log.open}, func(b *bed) {
		f := b.follow(b.request(`{}`))
		emit := func(from, to int) string {
			var ids []string
			for i := from; i <= to; i++ {
				b.Emit(incident{ID: fmt.Sprint(i)})
				ids = append(ids, fmt.Sprint(i))
			}
			return strings.Join(ids, " ")
		}
		read := strings.Join(strings.Fields(emit(1, 100))[:topic.ReadChunk], " ")
		var rest string
		log.after(1, func() { rest = emit(101, 200) })
		b.next(f, read)
		got := b.found(f)
		for len(strings.Fields(got)) < 101 {
			got += " " + b.found(f)
		}
		if want := "gap " + rest; got != want {
			b.t.Errorf("%.60q …, want %.60q …", got, want)
		}
		f.Close()
	})
}
