package client

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// P3, CLI-4: a stream whose heartbeats came every 500 ms and falls silent is opened again, from its last
// cursor, within 4 s; one that never had any gets the patience of Options.Heartbeat.
func TestP3SilenceIsMeasuredByHeartbeats(t *testing.T) {
	for beats, bound := range map[int]time.Duration{4: 4 * time.Second, 2: 4 * time.Second, 0: 61 * time.Second} {
		for _, cursor := range []string{"c0", ""} {
			eachCarrier(t, func(t *testing.T, c carrier) {
				f := newFake(c.legacy)
				var silent time.Time
				f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
					st.active(cursor)
					if len(f.cursors()) > 1 {
						st.event("e1", "")
						return hold(st)
					}
					for range beats {
						time.Sleep(500 * time.Millisecond)
						st.heartbeat(cursor)
					}
					silent = time.Now()
					return hold(st)
				}
				r := read(t, subscribe(t, connect(t, f, c, Options{})))
				if cursor == "" {
					r.want("gap:")
				}
				r.want("e1")
				want := map[string]string{"c0": "c0", "": "null"}[cursor]
				if d := time.Since(silent); d > bound || beats == 0 && d < time.Minute || f.cursors()[1] != want {
					t.Errorf("%d heartbeats: a new stream after %v from %s", beats, d, f.cursors()[1])
				}
			})
		}
	}
}

// P3: heartbeats that come up to half an interval late kill no stream, nor does an application that is slow
// for a while, after which heartbeats come all at once, nor a network that holds them up.
func TestP3NoFalseDeath(t *testing.T) {
	const interval = 5 * time.Second
	for _, slow := range []bool{false, true} {
		for _, schedule := range []string{"fixed", "drifting", "busy"} {
			t.Run(fmt.Sprint(schedule, slow), func(t *testing.T) {
				eachCarrier(t, func(t *testing.T, c carrier) {
					f := newFake(c.legacy)
					f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
						st.active("")
						begun, n := time.Now().Add(-rand.N(interval)), 0
						for ; st.ctx.Err() == nil; n++ {
							late := rand.N(interval / 2)
							if schedule == "drifting" {
								time.Sleep(interval + late)
							} else {
								time.Sleep(time.Until(begun.Add(time.Duration(n+1)*interval + late)))
							}
							st.heartbeat("")
							if schedule == "busy" || n%20 == 0 {
								st.event(fmt.Sprint("e", n), "")
							}
						}
						return nil, nil
					}
					o := Options{Buffer: 1}
					s := subscribe(t, connect(t, f, c, o))
					next := read(t, s)
					until := time.Now().Add(10 * time.Minute)
					for n := 0; time.Now().Before(until); n++ {
						if w := next.word(); w[0] != 'e' || w == "error" {
							t.Fatalf("%s (%v)", w, next.err)
						}
						if slow && n%10 == 0 {
							time.Sleep(2 * time.Minute)
						}
					}
					if n := len(f.cursors()); n != 1 {
						t.Errorf("%d streams", n)
					}
				})
			})
		}
	}
}

// P3: what was received in one go says nothing of the interval, and one short pause not much.
func TestP3Pulse(t *testing.T) {
	at := time.Now()
	beats := func(p *heartbeatMonitor, pauses ...time.Duration) time.Duration {
		for _, d := range pauses {
			at = at.Add(d)
			p.recordWait(d)
			p.beat(at)
		}
		return p.timeout()
	}
	const s = time.Second
	for want, pauses := range map[time.Duration][]time.Duration{
		60 * s: {s, time.Millisecond, time.Millisecond},
		15 * s: {s, 5 * s},
		20 * s: {s, 5 * s, 10 * s},
		2 * s:  {s, s / 10, s / 10},
		59 * s: {s, 29500 * time.Millisecond, s},
	} {
		p := heartbeatMonitor{assumed: 30 * s}
		if got := beats(&p, pauses...); got != want {
			t.Errorf("%v: %v, want %v", pauses, got, want)
		}
	}
	p := heartbeatMonitor{assumed: 30 * s}
	p.recordHandling(s)
	for range 10 { // behind: pauses between what waits are the application's
		at = at.Add(100 * time.Millisecond)
		p.recordWait(0)
		p.beat(at)
	}
	if got := p.timeout(); got != 60*s {
		t.Errorf("behind: %v", got)
	}
}

// P3, CLI-9: a listen request has no heartbeat. When a stream of its session was found dead it is asked anew,
// and what may have been missed is read; without any such sign the list is read by time, if rarely.
func TestP3ListenAgainAfterADeadStream(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.caps = changingCaps
		f.listen = acknowledge(nil)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.active("c0")
			for n := 0; len(f.cursors()) > 1 || n < 4; n++ {
				time.Sleep(time.Second)
				if st.ctx.Err() != nil {
					return nil, nil
				}
				st.heartbeat("c0")
			}
			return hold(st)
		}
		var rec recorder
		subscribe(t, connect(t, f, c, rec.options()))
		time.Sleep(time.Minute)
		synctest.Wait()
		n, _ := rec.seen()
		if !c.legacy && len(f.sent(methodListen)) != 2 || n < 1 || n > 2 {
			t.Errorf("%d listen requests, %d readings", len(f.sent(methodListen)), n)
		}
		if c.http && c.legacy { // the stream by which a session of this era is notified is a new one, too
			f.notifyAll(wire.NotificationListChanged)
			time.Sleep(2 * time.Second)
			if after, _ := rec.seen(); after != n+1 {
				t.Errorf("%d readings after list_changed", after-n)
			}
		}
		time.Sleep(40 * time.Minute)
		if after, _ := rec.seen(); after < n+1 {
			t.Error("never read by time")
		}
	})
}

// P3: a process that answers nothing any more is replaced.
func TestP3StuckProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(true)
		stuck := make(chan struct{})
		var streams atomic.Int32
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			if streams.Add(1) > 1 {
				st.active("c0")
				st.event("e1", "c1")
				return hold(st)
			}
			st.active("c0")
			for range 3 {
				time.Sleep(time.Second)
				st.heartbeat("c0")
			}
			close(stuck)
			return hold(st)
		}
		f.override = func(*jsonrpc.Request) any {
			select {
			case <-stuck:
				if len(f.sent(methodInitialize)) == 1 {
					time.Sleep(10 * time.Minute)
				}
			default:
			}
			return wire.ListResult{Events: f.list()}
		}
		cl := connect(t, f, carriers[0], Options{})
		session := cl.Session()
		r := read(t, subscribe(t, cl))
		<-stuck
		began := time.Now()
		r.want("e1")
		if d := time.Since(began); d > 35*time.Second || cl.Session() == session {
			t.Errorf("after %v", d)
		}
		time.Sleep(10 * time.Minute)
	})
}

// P4: however often the server tells of changes, the list is read once a second: the first at once, the last
// always.
func TestP4ListChangedFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(false)
		f.caps = changingCaps
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); return hold(st) }
		flood := make(chan struct{})
		var late atomic.Bool
		f.list = func() []wire.Descriptor {
			all := []wire.Descriptor{descriptor("tick", "push")}
			if late.Load() {
				all = append(all, descriptor("late", "push"))
			}
			return all
		}
		f.listen = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.send(notificationListenAck, `{"notifications":{"eventsListChanged":true}}`)
			<-flood
			for range 8000 {
				st.send(wire.NotificationListChanged, `{}`)
				time.Sleep(time.Millisecond)
			}
			late.Store(true)
			st.send(wire.NotificationListChanged, `{}`)
			return hold(st)
		}
		var catalogs, types atomic.Int32
		subscribe(t, connect(t, f, carriers[3], Options{OnCatalog: func(all []Descriptor) { catalogs.Add(1); types.Store(int32(len(all))) }}))
		synctest.Wait()
		before := len(f.sent(wire.MethodList))
		close(flood)
		synctest.Wait()
		if n := len(f.sent(wire.MethodList)) - before; n != 1 {
			t.Errorf("%d readings at the first change", n)
		}
		time.Sleep(10 * time.Second)
		if lists := len(f.sent(wire.MethodList)) - before; lists < 8 || lists > 11 || int(catalogs.Load()) != lists || types.Load() != 2 {
			t.Errorf("%d readings, %d catalogs, the last of %d types", lists, catalogs.Load(), types.Load())
		}
	})
}

// P4, CLI-9: a listen stream that is acknowledged and ends at once is asked for ever more rarely.
func TestP4ListenThatEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(false)
		f.caps = changingCaps
		f.listen = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.send(notificationListenAck, `{"notifications":{"eventsListChanged":true}}`)
			return empty, nil
		}
		connect(t, f, carriers[3], Options{})
		time.Sleep(10 * time.Minute)
		if n := len(f.sent(methodListen)); n < 10 || n > 25 {
			t.Errorf("%d listen requests in 10 minutes", n)
		}
	})
}

// P4: many subscriptions that a server refuses as unknown read the list together, and not all the time.
func TestP4ReselectSharesReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(false)
		var polls atomic.Int32
		f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
			if polls.Add(1)%3 == 0 {
				return nil, f.err(wire.NotFound, "")
			}
			return polled("c0", false, 1), nil
		}
		cl := connect(t, f, carriers[3], Options{Mode: wire.ModePoll})
		for n := range 50 {
			subscribe(t, cl, WithCursorKey(fmt.Sprint(n)))
			time.Sleep(20 * time.Millisecond)
		}
		f.forget()
		time.Sleep(10 * time.Second)
		if n := len(f.sent(wire.MethodList)); n < 3 || n > 11 {
			t.Errorf("%d readings in 10 s", n)
		}
	})
}
