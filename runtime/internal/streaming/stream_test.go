package streaming

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

var emits = eventtypetest.Options{Emits: true}

// PUSH-1, PUSH-3, PUSH-4: active comes first, then occurrences, and a heartbeat at each interval whatever flows, with the
// cursor of what was passed, also where nothing matched.
func TestPUSH4Heartbeats(t *testing.T) {
	inBubble(t, Options{}, emits, func(b *bed) {
		l := b.run(b.request(`{"severity":"P1"}`))
		l.wrote("at once", "active")
		var want []string
		for i := range 20 {
			time.Sleep(1900 * time.Millisecond)
			b.Emit(incident{ID: fmt.Sprint(i), Severity: []string{"P1", "P2"}[i%2]})
		}
		time.Sleep(8 * time.Second) // 46 s have passed
		for i := range 20 {
			if i == 7 || i == 15 { // after 15 s and 30 s
				want = append(want, "heartbeat")
			}
			if i%2 == 0 {
				want = append(want, occurrences(i)...)
			}
		}
		l.wrote("in 46 s", append(append([]string{"active"}, want...), "heartbeat")...)
		again := b.request(`{"severity":"P2"}`)
		again.Replay = from(l.cursorOf(len(l.lines()) - 1))
		b.run(again).wrote("a heartbeat's cursor has passed everything", "active")
		if b.frames != 15 || b.events != 10 {
			b.t.Errorf("%d frames are counted, of which %d occurrences", b.frames, b.events)
		}
	})
}

// A carrier that holds a heartbeat up for long gets one afterwards, not those it has missed.
func TestPUSH4HeldUp(t *testing.T) {
	inBubble(t, Options{}, emits, func(b *bed) {
		l := b.open(b.request(`{}`))
		l.gate = func(n int) error {
			if n == 1 {
				time.Sleep(time.Minute)
			}
			return nil
		}
		l.start()
		time.Sleep(76 * time.Second) // the heartbeat of 15 s is held up until 75 s
		l.wrote("afterwards", "active", "heartbeat", "heartbeat")
		time.Sleep(13 * time.Second)
		l.wrote("no further one at once", "active", "heartbeat", "heartbeat")
	})
}

// PUSH-4: heartbeats come in time while a check takes long, also on a stream that begins behind another one with the same
// arguments.
func TestPUSH4SlowCheck(t *testing.T) {
	for _, o := range []eventtypetest.Options{{Checks: true}, {Checks: true, Emits: true}} {
		inBubble(t, Options{}, o, func(b *bed) {
			old := b.run(b.request(`{}`))
			again := b.request(`{}`)
			again.Replay = from(old.cursorOf(0))
			old.cancel()
			<-old.done
			for i := range 3 {
				b.Put(fmt.Sprint(i))
			}
			first := b.run(b.request(`{}`))
			b.FailAfter(3, errTest) // pages of one item each
			behind := b.open(again)
			b.Delay(100 * time.Second)
			behind.start()
			beats := slices.Repeat([]string{"heartbeat"}, 5)
			time.Sleep(76 * time.Second)
			behind.wrote("while the check runs", append([]string{"active", "event 0"}, beats...)...)
			first.wrote("while the check runs", append([]string{"active"}, beats...)...)
			time.Sleep(125 * time.Second)
			want := append(append([]string{"active", "event 0"}, beats...), "heartbeat", "event 1")
			behind.wrote("afterwards", append(append(want, beats...), "heartbeat", "heartbeat", "event 2")...)
		})
	}
}

// PUSH-6, PUSH-8: whatever ends a stream, the first reason counts: it is told where there is one, the request gets its
// result unless the connection is gone, and nothing follows.
func TestPUSH6Ends(t *testing.T) {
	forbidden := events.Forbidden("no more")
	gone := errors.New("the connection is gone")
	for name, c := range map[string]struct {
		end  func(b *bed, l *live)
		told string
		err  error
	}{
		"the client leaves":      {end: func(_ *bed, l *live) { l.cancel() }, err: context.Canceled},
		"its carrier ends it":    {end: func(_ *bed, l *live) { l.End(); l.End() }},
		"a reason":               {end: func(_ *bed, l *live) { l.Terminate(forbidden); l.Terminate(nil) }, told: `{"reason":"no more"}`},
		"a reason after the end": {end: func(_ *bed, l *live) { l.End(); l.Terminate(forbidden) }},
		"all end":                {end: func(b *bed, _ *live) { b.Streams.Close() }},
		"its type ends":          {end: func(b *bed, _ *live) { b.EndType(b.Type, fault.NotFound("event")) }, told: `{"kind":"event"}`},
		"its type is removed":    {end: func(b *bed, _ *live) { b.Remove(); b.Ring(b.Type) }, told: `{"kind":"event"}`},
		"its arguments are no longer valid (EVOL-2)": {end: func(b *bed, _ *live) {
			b.Redefine(`{"type":"object","properties":{"severity":{"type":"number"}}}`)
			b.Ring(b.Type)
		}, told: `{"feature":"inputSchema","reason":"schema_changed"}`},
		"hooks refuse it when they are asked again (AUTH-2)": {end: func(b *bed, _ *live) { b.forbid(forbidden); time.Sleep(time.Minute) }, told: `{"reason":"no more"}`},
		"the token expires (AUTH-4)":                         {end: func(*bed, *live) { time.Sleep(time.Hour) }},
		"a write fails": {end: func(b *bed, l *live) {
			l.gate = func(int) error { return gone }
			b.Emit(incident{ID: "unwritten", Severity: "P1"})
		}, err: gone},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{Heartbeat: 2 * time.Hour, Reauthorize: time.Minute, MaxStreams: 1}, emits, func(b *bed) {
				r := b.request(`{"severity":"P1"}`)
				r.Expires = time.Now().Add(30 * time.Minute)
				l := b.run(r)
				b.Emit(incident{ID: "1", Severity: "P1"})
				synctest.Wait()
				c.end(b, l)
				l.over(c.err)
				want := []string{"active", "event 1"}
				if c.told != "" {
					want = append(want, "terminated "+c.told)
				}
				l.wrote("in all", want...)
				if final := string(l.final); c.err == nil && final != `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":8}}` {
					b.t.Errorf("final result %s", final)
				}
				b.hooks("on", "off")
				if h := b.Holding(); h != (Holding{}) {
					b.t.Errorf("the place is not free: %+v", h)
				}
				if _, err := l.Run(b.t.Context(), l); err == nil {
					b.t.Error("a stream ran twice")
				}
				l.Close() // does nothing
			})
		})
	}
}

// PUSH-6: a stream that ends before it runs says so when it does; one that never runs is given back.
func TestPUSH6BeforeRun(t *testing.T) {
	inBubble(t, Options{}, emits, func(b *bed) {
		l := b.open(b.request(`{}`))
		l.Terminate(events.Forbidden("no more"))
		l.start()
		l.over(nil)
		l.wrote("a reason", "active", `terminated {"reason":"no more"}`)
		gone := b.open(b.request(`{}`))
		gone.cancel()
		gone.start()
		gone.over(context.Canceled)
		gone.wrote("the client has left")
		for range 2 {
			b.open(b.request(`{}`)).Close()
		}
		b.hooks("on", "off", "on", "off", "on", "off", "on", "off")
	})
}

// PUSH-8: when its context has ended nothing more is written, also where the end comes while the stream looks for
// something to write, or wants to say why it ends.
func TestPUSH8NothingAfterTheEnd(t *testing.T) {
	inBubble(t, Options{}, emits, func(b *bed) {
		l := b.open(b.request(`{}`))
		b.Kernel().Transform = func(context.Context, any, any) error {
			l.Terminate(events.Forbidden("too late"))
			l.cancel()
			return nil
		}
		l.start()
		time.Sleep(time.Second)
		b.Emit(incident{ID: "1"})
		l.over(context.Canceled)
		l.wrote("in all", "active")
	})
}

// PUSH-1: where no cursor is given a stream begins at the head when the request arrived, not when its hooks have
// answered. A cursor replays what follows it.
func TestPUSH1Start(t *testing.T) {
	inBubble(t, Options{}, emits, func(b *bed) {
		b.Emit(incident{ID: "before"})
		b.during = func() { b.Emit(incident{ID: "during"}) }
		l := b.run(b.request(`{}`))
		b.Emit(incident{ID: "after"})
		l.wrote("without a cursor", "active", "event during", "event after")
		b.during = nil
		r := b.request(`{}`)
		r.Replay = from(l.cursorOf(1)) // of "during"
		b.run(r).wrote("with one", "active", "event after")
		r.Replay = from("AQEgarbage")
		b.run(r).wrote("with a false one (CUR-7)", "active truncated")
	})
}

// PUSH-7, SRV-1: a stream that fell out of retention says so with a fresh active and goes on. It slows nobody.
func TestPUSH7Gap(t *testing.T) {
	inBubble(t, Options{}, eventtypetest.Options{Emits: true, Kept: topic.Kept{MaxCount: 10}}, func(b *bed) {
		block := make(chan struct{})
		slow := b.open(b.request(`{}`))
		slow.gate = func(n int) error {
			if n == 1 {
				<-block
			}
			return nil
		}
		if slow.Behind() != nil {
			b.t.Error("it is known how far behind a stream is that does not run")
		}
		slow.start()
		fast := b.run(b.request(`{}`))
		for i := range 50 {
			b.Emit(incident{ID: fmt.Sprint(i)})
			synctest.Wait()
		}
		if n := slow.Behind(); n == nil || *n != 50 {
			b.t.Errorf("behind by %v: what is being written counts as not passed", n)
		}
		if len(fast.lines()) != 51 || *fast.Behind() != 0 {
			b.t.Errorf("the fast one has %d frames and is behind by %d", len(fast.lines()), *fast.Behind())
		}
		close(block)
		want := []any{}
		for i := 40; i < 50; i++ {
			want = append(want, i)
		}
		slow.wrote("the slow one", append([]string{"active", "event 0", "active truncated"}, occurrences(want...)...)...)
	})
}

// CUR-3: a stream of a type without replay has null cursors.
func TestCUR3WithoutReplay(t *testing.T) {
	inBubble(t, Options{}, emits, func(b *bed) {
		b.Kernel().NoReplay = true
		r := b.request(`{}`)
		r.Replay = from("AQEgarbage")
		l := b.run(r)
		b.Emit(incident{ID: "1"})
		time.Sleep(16 * time.Second)
		l.wrote("in all", "active", "event 1", "heartbeat")
		for i := range l.lines() {
			if c := l.cursorOf(i); c != "" {
				b.t.Errorf("frame %d has the cursor %s", i, c)
			}
		}
	})
}

// PUSH-10: a principal has so many streams in all and of a type; followers and those that have ended do not count.
func TestPUSH10Caps(t *testing.T) {
	inBubble(t, Options{MaxStreams: 2}, emits, func(b *bed) {
		r := b.request(`{}`)
		r.Max = 1
		one := b.run(r)
		refused := func(r Request, what string) {
			t.Helper()
			var e *events.Error
			if _, err := b.Open(b.t.Context(), r); !errors.As(err, &e) || e.Kind != wire.ResourceExhausted || string(e.Data) != what {
				b.t.Errorf("%v, want %s", err, what)
			}
		}
		refused(r, `{"limit":"streams","max":1}`)
		f, err := b.Follow(b.t.Context(), r)
		if err != nil {
			b.t.Fatal(err)
		}
		defer f.Close()
		r.Max = 0
		b.run(r)
		refused(r, `{"limit":"streams","max":2}`)
		ben := r
		ben.Sub.Principal = "ben"
		b.run(ben)
		one.End()
		<-one.done
		b.run(r)
		if h := b.Holding(); h != (Holding{Open: 4, Counted: 6}) {
			b.t.Errorf("%+v", h)
		}
	})
}

// SRV-3, ERR-2: what cannot begin leaves nothing: when OnSubscribe refuses, when the log cannot be read, and after
// Close.
func TestSRV3NothingIsLeft(t *testing.T) {
	log := new(brokenLog)
	inBubble(t, Options{}, eventtypetest.Options{Emits: true, Log: log.open}, func(b *bed) {
		b.refuse = errTest
		if _, err := b.Open(b.t.Context(), b.request(`{}`)); !errors.Is(err, errTest) {
			b.t.Errorf("refused: %v", err)
		}
		b.hooks("on")
		b.refuse = nil
		l := b.run(b.request(`{}`))
		l.End()
		<-l.done
		b.Emit(incident{ID: "1"}, time.Now().Add(-time.Hour))
		log.set(true)
		r := b.request(`{}`)
		age := time.Minute
		r.Replay = from(l.cursorOf(len(l.lines()) - 1))
		r.Replay.MaxAge = &age
		if _, err := b.Open(b.t.Context(), r); !errors.Is(err, errTest) {
			b.t.Errorf("a log that cannot be read: %v", err)
		}
		b.hooks("on", "on", "off", "on", "off")
		b.Streams.Close()
		for range 2 {
			if _, err := b.Open(b.t.Context(), b.request(`{}`)); !errors.Is(err, fault.ErrShuttingDown) {
				b.t.Errorf("after Close: %v", err)
			}
		}
		if h := b.Holding(); h != (Holding{}) {
			b.t.Errorf("%+v", h)
		}
	})
}

// PUSH-5: a log that cannot be read is told once a try, internally with its cause, and the stream goes on when it can
// be read again. So does one of a check.
func TestPUSH5Failures(t *testing.T) {
	log := new(brokenLog)
	inBubble(t, Options{}, eventtypetest.Options{Emits: true, Log: log.open}, func(b *bed) {
		l := b.run(b.request(`{}`))
		b.Emit(incident{ID: "0"}) // stays decoded: it needs no reading
		l.wrote("before", "active", "event 0")
		log.set(true)
		r := b.request(`{}`)
		r.Replay = from(l.cursorOf(0))
		for i := range 100 { // more than are kept decoded
			b.Emit(incident{ID: fmt.Sprint(1 + i)})
		}
		synctest.Wait()
		behind := b.run(r)
		time.Sleep(1500 * time.Millisecond)
		behind.wrote("while it cannot be read", "active", "error", "error")
		log.set(false)
		time.Sleep(time.Second)
		want := []any{}
		for i := range 101 {
			want = append(want, i)
		}
		behind.wrote("afterwards", append([]string{"active", "error", "error"}, occurrences(want...)...)...)
		if !strings.Contains(b.log(), errTest.Error()) {
			b.t.Errorf("the author hears nothing: %s", b.log())
		}
	})
	inBubble(t, Options{}, eventtypetest.Options{Checks: true}, func(b *bed) {
		l := b.run(b.request(`{}`))
		b.Put("1")
		time.Sleep(2 * time.Second)
		l.wrote("a check", "active", "event 1")
		if l.Behind() != nil {
			b.t.Error("it is known how far behind a stream of a check is")
		}
		b.Fail(errTest)
		time.Sleep(1500 * time.Millisecond)
		b.Fail(nil)
		b.Put("2")
		time.Sleep(time.Minute)
		if got := strings.Join(l.lines(), ","); !strings.HasPrefix(got, "active,event 1,error") || !strings.Contains(got, "event 2") || strings.Contains(got, errTest.Error()) {
			b.t.Errorf("in all %s", got)
		}
		b.Redefine(`{"type":"object"}`)
		b.Ring(b.Type)
		b.Put("3")
		time.Sleep(2 * time.Second)
		if got := strings.Join(l.lines(), ","); !strings.Contains(got, "event 3") {
			b.t.Errorf("under another definition %s", got)
		}
	})
}

// OCC-4: an occurrence that a subscription cannot have is an error of its stream; the author hears of it.
func TestOCC4Refused(t *testing.T) {
	inBubble(t, Options{}, emits, func(b *bed) {
		b.Refuse("2", errTest)
		l := b.run(b.request(`{}`))
		for _, id := range []string{"1", "2", "3"} {
			b.Emit(incident{ID: id})
		}
		l.wrote("in all", "active", "event 1", "error", "event 3")
		if !strings.Contains(b.log(), errTest.Error()) {
			b.t.Errorf("the author hears nothing: %s", b.log())
		}
	})
}

// EVOL-3: a stream goes on under another definition that its arguments are valid under.
func TestEVOL3GoesOn(t *testing.T) {
	inBubble(t, Options{}, emits, func(b *bed) {
		l := b.run(b.request(`{"severity":"P1"}`))
		b.Redefine(`{"type":"object","properties":{"severity":{"type":"string"}}}`)
		b.Ring(b.Type)
		synctest.Wait()
		b.Emit(incident{ID: "1", Severity: "P1"})
		b.Emit(incident{ID: "2", Severity: "P2"})
		l.wrote("in all", "active", "event 1")
	})
}

// What an operator raises comes between occurrences, a gap as an active with truncated. Operators see who it is.
func TestRaise(t *testing.T) {
	inBubble(t, Options{}, emits, func(b *bed) {
		began := time.Now()
		l := b.run(b.request(`{}`))
		b.Emit(incident{ID: "1"})
		synctest.Wait()
		l.Raise(events.Forbidden("look"))
		synctest.Wait()
		l.Raise(nil)
		synctest.Wait()
		b.Emit(incident{ID: "2"})
		l.wrote("in all", "active", "event 1", `error {"reason":"look"}`, "active truncated", "event 2")
		if i := l.Info(); l.Type() != b.Type || i.Subscription != l.Subscription().ID || i.Principal != "ann" || i.Event != "e" || i.Mode != wire.ModePush || !i.Since.Equal(began) {
			b.t.Errorf("%+v", i)
		}
		if b.Stream(l.Number()) != l.Stream || b.Stream(99) != nil || len(b.All()) != 1 {
			b.t.Errorf("%d streams", len(b.All()))
		}
		b.forbid(events.Forbidden("no more"))
		if l.Refused(b.t.Context()) == nil {
			b.t.Error("the hooks are not asked")
		}
	})
}

// PUSH-7: who follows a stream that falls out of retention while it reads is told of the loss after what came before it
// and before what follows: in one pass there may be both.
func TestPUSH7GapAfterEvents(t *testing.T) {
	log := new(fadingLog)
	inBubble(t, Options{}, eventtypetest.Options{Emits: true, Kept: topic.Kept{MaxCount: 100}, Log: log.open}, func(b *bed) {
		first := b.run(b.request(`{}`))
		start := first.cursorOf(0)
		first.End() // it would read, too
		first.over(nil)
		emit := func(from, to int) (ids []any) {
			for i := from; i <= to; i++ {
				b.Emit(incident{ID: fmt.Sprint(i)})
				ids = append(ids, i)
			}
			return ids
		}
		r := b.request(`{}`)
		r.Replay = from(start)
		l := b.open(r)
		read := emit(1, 100)[:topic.ReadChunk]
		var rest []any
		log.after(1, func() { rest = emit(101, 200) })
		l.start()
		synctest.Wait()
		want := append([]string{"active"}, occurrences(read...)...)
		want = append(append(want, "active truncated"), occurrences(rest...)...)
		l.wrote("in all", want...)
	})
}

// REP-11, AUTH-2: while requests of operators have not been read, and while a stream is held, it writes heartbeats and no
// occurrence, also none that it has read before. Nothing is lost or repeated if it goes on.
func TestREP11NothingUnread(t *testing.T) {
	log := new(fadingLog)
	inBubble(t, Options{Heartbeat: 10 * time.Second}, eventtypetest.Options{Emits: true, Log: log.open}, func(b *bed) {
		l := b.run(b.request(`{}`))
		b.read(false)
		b.Emit(incident{ID: "1"})
		time.Sleep(11 * time.Second)
		l.wrote("unread", "active", "heartbeat")
		b.read(true)
		time.Sleep(time.Second)
		l.wrote("read", "active", "heartbeat", "event 1")

		log.after(0, func() { b.read(false) })
		b.Emit(incident{ID: "2"})
		time.Sleep(time.Second)
		l.wrote("unread after the events", "active", "heartbeat", "event 1")
		b.read(true)
		time.Sleep(time.Second)
		l.wrote("read again", "active", "heartbeat", "event 1", "event 2")

		l.Hold()
		b.Emit(incident{ID: "3"})
		time.Sleep(5 * time.Second)
		l.Terminate(events.Forbidden("no more"))
		l.over(nil)
		if all := l.lines(); all[len(all)-1] != `terminated {"reason":"no more"}` || slices.Contains(all, "event 3") {
			t.Errorf("held: %q", all)
		}
	})
	inBubble(t, Options{}, emits, func(b *bed) {
		f := b.follow(b.request(`{}`))
		b.read(false)
		b.Emit(incident{ID: "1"})
		b.next(f, context.DeadlineExceeded.Error())
		b.read(true)
		b.next(f, "1")
		f.Close()
	})
}

// A context that a hook derives ends with the stream, whether it was derived before or after, and needs no goroutine.
func TestHookContext(t *testing.T) {
	st := &Stream{wake: topic.NewWake()}
	c := &hookContext{Context: t.Context(), st: st}
	before := runtime.NumGoroutine()
	early, cancel := context.WithCancel(c)
	defer cancel()
	if n := runtime.NumGoroutine() - before; n > 0 {
		t.Errorf("%d more goroutines", n)
	}
	if c.Err() != nil || early.Err() != nil {
		t.Errorf("before the end: %v, %v", c.Err(), early.Err())
	}
	st.Terminate(nil)
	late, cancel := context.WithCancel(c)
	defer cancel()
	unused := &hookContext{Context: t.Context(), st: st} // its channel is made after the end
	for _, ctx := range []context.Context{c, early, late, unused} {
		<-ctx.Done()
		if ctx.Err() != context.Canceled {
			t.Errorf("after the end: %v", ctx.Err())
		}
	}
}
