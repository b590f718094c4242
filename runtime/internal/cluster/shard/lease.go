package shard

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A session is a lease whose duration is measured with the replica's clocks.
type session struct {
	fence uint64
	asked time.Duration // when the last granted renewal was requested
	ends  time.Duration
	wall  time.Time         // at asked
	types map[string]string // that the store has
	stop  func() bool
	lost  bool
}

// A reading contains the times that the store's clock and the replica's clock showed at the same moment.
type reading struct {
	store time.Time
	at    time.Duration
	wrong time.Duration // maximum error, because the store answered some time between request and response
}

// driftDivisor is the divisor of the elapsed time that yields the maximum assumed drift between the two clocks (200
// ppm).
const driftDivisor = 5000

// isBetter reports whether r is at least as accurate as the older reading, whose accuracy decreases with its age. It
// also returns true if the two contradict each other, because the store's clock was set or the replica's clock stopped.
func (r reading) isBetter(old reading) bool {
	age := r.at - old.at
	wrong := old.wrong + age/driftDivisor
	apart := r.store.Sub(old.store) - age
	return old.store.IsZero() || r.wrong <= wrong || apart.Abs() > r.wrong+wrong
}

// Now returns the store's time according to the most accurate reading, and whether such a reading exists. It does not
// simply use the latest reading, because a slow response can distort it and stored times are compared with times stored
// by other processes.
func (o *Owner) Now() (now time.Time, known bool) {
	at := o.o.Clock.Monotonic()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.time.store.IsZero() {
		return o.o.Clock.Wall(), false
	}
	return o.time.store.Add(at - o.time.at), true
}

// isCurrent reports whether the session's lease is still valid according to both clocks. If not, it ends the session.
func (o *Owner) isCurrent(s *session) bool {
	mono, wall := o.o.Clock.Monotonic(), o.o.Clock.Wall()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.judge(s, mono, wall)
}

func (o *Owner) judge(s *session, mono time.Duration, wall time.Time) bool {
	if s.lost {
		return false
	}
	why := ""
	if drift := wall.Sub(s.wall) - (mono - s.asked); drift > maxDrift || drift < -maxDrift {
		why = "wall and monotonic clock have drifted apart"
	} else if mono >= s.ends {
		why = "it was not renewed in time"
	}
	if why != "" {
		o.endSession(s, why)
	}
	return !s.lost
}

// endSession ends the session and its ownerships. The caller must hold o.mu.
func (o *Owner) endSession(s *session, why string) {
	if s.lost {
		return
	}
	s.lost = true
	s.stop()
	if o.session == s {
		o.session = nil
	}
	for _, t := range o.ownerships {
		if t.session == s {
			t.cancel()
		}
	}
	o.o.Logger.Warn("mcp events: the lease is lost", "replica", o.o.Name, "fence", s.fence, "why", why)
}

func (o *Owner) join(ctx context.Context) *session {
	asked, wall := o.o.Clock.Monotonic(), o.o.Clock.Wall()
	var lease engine.Lease
	types, report := o.announcedTypes(), o.o.Report()
	err := o.callStore(ctx, func(ctx context.Context) (err error) {
		lease, err = o.o.Leases.Join(ctx, o.o.Name, o.o.TTL, types, report)
		return err
	})
	if err != nil {
		o.o.Logger.Warn("mcp events: joining the cluster failed", "replica", o.o.Name, "error", err)
		return nil
	}
	s := &session{fence: lease.Fence, types: types}
	if !o.recordLease(s, lease, asked, wall) {
		return nil
	}
	return s
}

// recordLease records a granted lease, whose duration counts from the time of the request. It reports whether the
// session still holds the lease.
func (o *Owner) recordLease(s *session, lease engine.Lease, asked time.Duration, wall time.Time) bool {
	now := o.o.Clock.Monotonic()
	middle := asked + (now-asked)/2
	skew := wall.Add(middle - asked).Sub(lease.Now)
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.lost {
		return false
	}
	if r := (reading{lease.Now, middle, (now - asked) / 2}); r.isBetter(o.time) {
		o.time = r
	}
	if skewed := skew > maxSkew || skew < -maxSkew; skewed != o.skewed {
		if o.skewed = skewed; skewed {
			o.o.Logger.Warn("mcp events: the clock differs from the store's; the store's time is used", "replica", o.o.Name, "by", skew)
		}
	}
	if s.stop != nil {
		s.stop()
	} else {
		o.session = s
	}
	s.asked, s.wall, s.ends = asked, wall, asked+o.o.TTL-o.o.TTL/marginDivisor
	o.setTimer(s, now)
	if now >= s.ends {
		o.endSession(s, "its answer came too late")
	}
	return !s.lost
}

// minAwait is the minimum delay before the timer checks whether a lease has ended.
const minAwait = time.Millisecond

// setTimer sets a timer that ends the session when its lease expires, even if the clocks are not read otherwise. The
// end of the session cancels the work in progress. If the timer fires too early, it is reset. The caller must hold
// o.mu.
func (o *Owner) setTimer(s *session, now time.Duration) {
	ends := s.ends
	s.stop = o.o.Clock.AfterFunc(max(ends-now, minAwait), func() {
		mono, wall := o.o.Clock.Monotonic(), o.o.Clock.Wall()
		o.mu.Lock()
		defer o.mu.Unlock()
		if s.ends == ends && o.judge(s, mono, wall) { // a renewal sets a new timer
			o.setTimer(s, mono)
		}
	})
}

// reportEvery is the maximum interval between two reports of a replica, which it stores when it renews its lease.
const reportEvery = 5 * time.Second

// renewLease renews the lease if a third of its duration or reportEvery has elapsed, or the types have changed.
func (o *Owner) renewLease(ctx context.Context, s *session, types map[string]string) {
	asked, wall := o.o.Clock.Monotonic(), o.o.Clock.Wall()
	o.mu.Lock()
	due := o.judge(s, asked, wall) && (asked >= s.asked+min(o.o.TTL/3, reportEvery) || !maps.Equal(types, s.types))
	o.mu.Unlock()
	if !due {
		return
	}
	var lease engine.Lease
	report := o.o.Report()
	err := o.callStore(ctx, func(ctx context.Context) (err error) {
		lease, err = o.o.Leases.Renew(ctx, s.fence, o.o.TTL, types, report)
		return err
	})
	if !o.isCurrent(s) {
		return // the lease ended meanwhile; even if it was renewed, others may know that it ended
	}
	switch {
	case err == nil:
		s.types = types
		o.recordLease(s, lease, asked, wall)
	case errors.Is(err, engine.ErrFenced):
		o.mu.Lock()
		o.endSession(s, "the store says so")
		o.mu.Unlock()
	default:
		o.o.Logger.Warn("mcp events: renewing the lease failed", "replica", o.o.Name, "error", err)
	}
}
