package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/inbox"
)

// A breaker stops a loop of wakes: an agent or a command that is woken does something, and the resulting event wakes it
// once more. A wake follows the previous wake if its event came after that wake began. If too many wakes follow each
// other within a time, the wakes of the subscription pause.
//
// A pause ends after a quiet time without events. It also ends if as many events arrive as the limit for a loop:
// nothing was woken meanwhile, so the bridge did not cause them.
type breaker struct {
	limit *config.Loop // nil never pauses

	mu      sync.Mutex
	began   time.Time   // start of the last wake
	newest  uint64      // the last batch that caused a wake
	follows []time.Time // starts of wakes that follow another one, within the limit's time
	paused  time.Time   // start of the pause; zero without a pause
	latest  time.Time   // time of the last event during the pause
	came    int         // number of batches during the pause
	changed chan struct{}
}

func newBreaker(limit *config.Loop) *breaker {
	return &breaker{limit: limit, changed: make(chan struct{})}
}

// wake records a wake by these batches, which are not empty. It returns false if the wake must not happen, because the
// wakes of the subscription now pause.
func (k *breaker) wake(batches []inbox.Batch, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := batches[len(batches)-1]
	if k.limit == nil || last.Sequence <= k.newest {
		return true // the same wake in another window, or another attempt
	}
	follow := !k.began.IsZero() && last.Received.After(k.began)
	if follow {
		k.follows = append(k.within(now), now)
		if len(k.follows) >= k.limit.Wakes {
			k.paused, k.latest, k.came, k.follows = now, now, 0, nil
			k.tell()
			return false
		}
	}
	k.began, k.newest = now, last.Sequence
	return true
}

// within returns the follows that count; the caller holds mu.
func (k *breaker) within(now time.Time) []time.Time {
	for len(k.follows) > 0 && now.Sub(k.follows[0]) > k.limit.Within {
		k.follows = k.follows[1:]
	}
	return k.follows
}

// arrived records a batch, and reports whether it ends a pause.
func (k *breaker) arrived(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paused.IsZero() {
		return false
	}
	k.latest = now
	k.came++
	k.tell()
	return k.came >= k.limit.Wakes && k.resumeLocked()
}

// resume ends a pause, and reports whether there was a pause.
func (k *breaker) resume() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.resumeLocked()
}

func (k *breaker) resumeLocked() bool {
	if k.paused.IsZero() {
		return false
	}
	k.paused, k.began = time.Time{}, time.Time{}
	k.tell()
	return true
}

// tell wakes the goroutines that wait for a change; the caller holds mu.
func (k *breaker) tell() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// since returns when the pause began, or zero without a pause.
func (k *breaker) since() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.paused
}

// quiet returns the time at which the pause ends if nothing arrives, or zero without a pause, and a channel that the
// next change closes.
func (k *breaker) quiet() (time.Time, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paused.IsZero() {
		return time.Time{}, k.changed
	}
	return k.latest.Add(k.limit.Quiet), k.changed
}

// Names of the batch that announces a pause. It does not come from a server.
const (
	bridgeName  = "bridge"
	pausedEvent = "wakes.paused"
)

// woken reports whether batches of the feed may wake the agent or the command. If they exceed the limit, it adds a
// notice to the inbox and tells the user.
func (f *feed) woken(ctx context.Context, batches []inbox.Batch) bool {
	now := time.Now()
	if f.loop.wake(batches, now) {
		return true
	}
	l := f.loop.limit
	text := fmt.Sprintf("%d wakes by %s followed each other within %v, as in a loop. They pause until nothing has come for %v; mcpe-gen bridge resume ends the pause. Events still arrive in the inbox.",
		l.Wakes, f.name(), l.Within, l.Quiet)
	f.e.say("%s", text)
	data, err := json.Marshal(map[string]string{"subscription": f.id, "server": f.sub.Server, "event": f.sub.Event, "text": text})
	if err == nil {
		// Do not wait long for room in a full inbox.
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = f.e.state.box.Add(ctx, inbox.Batch{Subscription: bridgeName, Server: bridgeName, Event: pausedEvent, Received: now.UTC()},
			[]inbox.Event{{ID: f.id + "-" + now.UTC().Format(time.RFC3339Nano), Timestamp: now.UTC(), Data: data}}, false)
	}
	if err != nil {
		f.e.say("saying in the inbox that wakes pause: %v", err)
	}
	return false
}

// resumeQuiet ends the feed's pauses after their quiet time, until ctx is done.
func (f *feed) resumeQuiet(ctx context.Context) {
	for {
		at, changed := f.loop.quiet()
		var due <-chan time.Time
		if !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-due:
			f.resume("nothing has come for a while")
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// resume ends a pause, and reports whether there was a pause.
func (f *feed) resume(why string) bool {
	if !f.loop.resume() {
		return false
	}
	f.resumed(why)
	return true
}

// resumed reports the end of a pause and lets wakes continue.
func (f *feed) resumed(why string) {
	f.e.say("%s: wakes go on: %s", f.name(), why)
	f.e.state.box.Tell()
}

// pauses reports whether the wakes of a subscription are paused.
func (e *engine) pauses(subscription string) bool {
	f := e.feed(subscription)
	return f != nil && !f.loop.since().IsZero()
}
