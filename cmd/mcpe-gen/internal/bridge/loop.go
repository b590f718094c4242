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

// A breaker stops a loop of wakes. In such a loop, an agent or command that is woken causes an event, which causes the
// next wake. A wake follows the previous one if its event arrived after the previous wake began. If too many wakes
// follow each other within a period, the wakes of the subscription are paused.
//
// A pause ends after a period without events. It also ends when the number of arrived events reaches the loop limit.
// Because nothing was woken during the pause, the bridge did not cause them.
type breaker struct {
	limit *config.Loop // nil never pauses

	mu       sync.Mutex
	began    time.Time   // start of the last wake
	newest   uint64      // the last batch that caused a wake
	follows  []time.Time // starts of wakes that follow another one, within the limit's time
	paused   time.Time   // start of the pause; zero without a pause
	latest   time.Time   // time of the last event during the pause
	arrivals int         // number of batches during the pause
	changed  chan struct{}
}

func newBreaker(limit *config.Loop) *breaker {
	return &breaker{limit: limit, changed: make(chan struct{})}
}

// recordWake records a wake for a non-empty list of batches. It returns false if the wakes of the subscription are now
// paused, in which case the wake must not happen.
func (k *breaker) recordWake(batches []inbox.Batch, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := batches[len(batches)-1]
	if k.limit == nil || last.Sequence <= k.newest {
		return true // the same wake in another window, or another attempt
	}
	follow := !k.began.IsZero() && last.Received.After(k.began)
	if follow {
		k.follows = append(k.recentFollows(now), now)
		if len(k.follows) >= k.limit.Wakes {
			k.paused, k.latest, k.arrivals, k.follows = now, now, 0, nil
			k.notifyLocked()
			return false
		}
	}
	k.began, k.newest = now, last.Sequence
	return true
}

// recentFollows returns the recent follows, which count toward the limit. The caller must hold mu.
func (k *breaker) recentFollows(now time.Time) []time.Time {
	for len(k.follows) > 0 && now.Sub(k.follows[0]) > k.limit.Within {
		k.follows = k.follows[1:]
	}
	return k.follows
}

// recordArrival records a batch and reports whether it ends a pause.
func (k *breaker) recordArrival(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paused.IsZero() {
		return false
	}
	k.latest = now
	k.arrivals++
	k.notifyLocked()
	return k.arrivals >= k.limit.Wakes && k.resumeLocked()
}

// resume ends the pause, if any. It reports whether there was one.
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
	k.notifyLocked()
	return true
}

// notifyLocked wakes the goroutines that wait for a change. The caller must hold mu.
func (k *breaker) notifyLocked() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// pausedSince returns the start of the current pause, or the zero time.
func (k *breaker) pausedSince() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.paused
}

// quietEnd returns when the pause ends if no event arrives, or the zero time if wakes are not paused. It also returns a
// channel that is closed on the next change.
func (k *breaker) quietEnd() (time.Time, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paused.IsZero() {
		return time.Time{}, k.changed
	}
	return k.latest.Add(k.limit.Quiet), k.changed
}

// These names identify the batch that announces a pause. That batch does not come from a server.
const (
	bridgeName  = "bridge"
	pausedEvent = "wakes.paused"
)

// mayWake reports whether batches of the feed may wake the agent or the command. If they exceed the limit, it adds a
// notice to the inbox and informs the user.
func (f *feed) mayWake(ctx context.Context, batches []inbox.Batch) bool {
	now := time.Now()
	if f.breaker.recordWake(batches, now) {
		return true
	}
	l := f.breaker.limit
	text := fmt.Sprintf("%d wakes by %s followed each other within %v, as in a loop. They pause until nothing has come for %v; mcpe-gen bridge resume ends the pause. Events still arrive in the inbox.",
		l.Wakes, f.name(), l.Within, l.Quiet)
	f.e.printMessage("%s", text)
	data, err := json.Marshal(map[string]string{"subscription": f.id, "server": f.sub.Server, "event": f.sub.Event, "text": text})
	if err == nil {
		// Do not wait long for room in a full inbox.
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = f.e.state.box.Add(ctx, inbox.Batch{Subscription: bridgeName, Server: bridgeName, Event: pausedEvent, Received: now.UTC()},
			[]inbox.Event{{ID: f.id + "-" + now.UTC().Format(time.RFC3339Nano), Timestamp: now.UTC(), Data: data}}, false)
	}
	if err != nil {
		f.e.printMessage("saying in the inbox that wakes pause: %v", err)
	}
	return false
}

// resumeQuiet ends each pause of the feed after a period without events, until ctx is done.
func (f *feed) resumeQuiet(ctx context.Context) {
	for {
		at, changed := f.breaker.quietEnd()
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

// resume ends the pause, if any. It reports whether there was one.
func (f *feed) resume(why string) bool {
	if !f.breaker.resume() {
		return false
	}
	f.announceResume(why)
	return true
}

// announceResume reports the end of a pause and lets wakes continue.
func (f *feed) announceResume(why string) {
	f.e.printMessage("%s: wakes go on: %s", f.name(), why)
	f.e.state.box.Tell()
}

// isPaused reports whether the wakes of a subscription are paused.
func (e *engine) isPaused(subscription string) bool {
	f := e.feed(subscription)
	return f != nil && !f.breaker.pausedSince().IsZero()
}
