package jetstream

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream/internal/monitor"
)

// checkCluster checks the generation, the key, the leases and the shards.
func (e *examination) checkCluster(ctx context.Context) {
	if e.state == nil {
		return
	}
	r, err := e.s.state.read(ctx, false, generationSubject)
	if err != nil {
		e.addDenied("generation", err)
		return
	}
	is := r.of(generationSubject)
	switch l, err := e.s.decodeGeneration(&is); {
	case err != nil:
		e.Add(checkup.Fail, "generation", err.Error(), "restore the stream from a backup, then run mcpe-jetstream new-life")
	case l == nil:
		e.Add(checkup.Warn, "generation", "no generation has begun", "start a server, or run mcpe-jetstream prepare")
	case l.Group != raftGroup(e.state):
		e.Add(checkup.Warn, "generation", fmt.Sprintf("%d; stream %s was recreated or restored since", l.Generation, e.state.Config.Name),
			"the next server that starts begins a new generation, and subscribers get truncated. If you restored all streams, run mcpe-jetstream new-life")
	default:
		secrets := "not sealed"
		if l.Sealed != nil {
			secrets = "sealed"
		}
		e.Add(checkup.OK, "generation", fmt.Sprintf("%d; secrets are %s", l.Generation, secrets), "")
		if _, err := e.s.checkKey(l); err != nil && e.s.box.Keyed() {
			e.Add(checkup.Fail, "key", err.Error(), "set the servers' Options.Key to the key that the store was created with, or to nil if it was created without one")
		}
	}
	left, live := e.Lease, map[uint64]bool{}
	for _, l := range e.leased {
		live[l.fence()] = true
		left = min(left, l.record.stamp.Add(l.TTL).Sub(e.state.TimeStamp))
		if l.TTL < shortLease {
			e.Add(checkup.Warn, "lease", fmt.Sprintf("%s has a lease of %v", l.Name, l.TTL), "set replicas.Options.Lease to 30s: otherwise the crash of one nats-server can end every lease")
		}
	}
	found := fmt.Sprintf("%d live servers, %d expired leases", len(e.leased), e.over)
	switch {
	case len(e.leased) == 0:
		e.Add(checkup.Warn, "lease", found, "start a server: until then, no webhooks are delivered and the outbox waits")
	case e.over > 0:
		e.Add(checkup.Warn, "lease", found, "check why these servers died or did not renew: look for `the lease is lost` in their logs. Other servers take over within seconds")
	case left < e.Lease/3: // leases are renewed after a third of their time
		e.Add(checkup.Warn, "lease", fmt.Sprintf("%s; the next to expire has %v of %v left", found, left.Round(100*time.Millisecond), e.Lease),
			"renewals are late: the nats-servers are slow, or a server hangs; check that -lease equals replicas.Options.Lease")
	default:
		e.Add(checkup.OK, "lease", found, "")
	}
	all, owned := 0, 0
	free := maps.Clone(e.shards)
	for _, n := range e.shards {
		all += n
	}
	for _, h := range e.holds {
		if live[h.Fence] {
			owned++
			free[h.Topic]--
		}
	}
	if owned >= all {
		e.Add(checkup.OK, "shards", fmt.Sprintf("all %d have an owner", all), "")
		return
	}
	maps.DeleteFunc(free, func(_ string, n int) bool { return n <= 0 })
	names := slices.Sorted(maps.Keys(free))
	const shown = 5
	more := ""
	if len(names) > shown {
		names, more = names[:shown], " and others"
	}
	e.Add(checkup.Warn, "shards", fmt.Sprintf("%d of %d have no owner: %s%s", all-owned, all, strings.Join(names, ", "), more),
		"start a server that registers these event types; after a crash, wait until the lease has expired, and 2 s more")
}

// checkLatency estimates the duration of a write. It measures quorum checks, which write nothing (F5).
func (e *examination) checkLatency(ctx context.Context) {
	if e.state == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	var took []time.Duration
	for range trips {
		began := time.Now()
		if err := e.s.checkQuorum(ctx, e.s.state.stream); err != nil {
			e.Add(checkup.Fail, "write", err.Error(), "two of the stream's three servers must be running")
			return
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	trip, state := took[len(took)/2], checkup.OK
	if trip*leaseTrips > e.Lease {
		state = checkup.Warn
	}
	e.Add(state, "write", fmt.Sprintf("%v from here; a lease of %v has time for %d", trip.Round(10*time.Microsecond), e.Lease, int(e.Lease/max(trip, 1))),
		fmt.Sprintf("make replicas.Options.Lease longer than %d writes, or use faster disks or network for the nats-servers", leaseTrips))
}

// checkClocks compares this machine's clock with the nats-servers' clocks.
func (e *examination) checkClocks(ctx context.Context) {
	apart := func(whose string, untold func(string, error), ask func() (time.Time, error)) {
		began := time.Now()
		there, err := ask()
		if err != nil {
			untold("clock", err)
			return
		}
		took := time.Since(began)
		ahead, state := there.Sub(began.Add(took/2)), checkup.OK
		if ahead.Abs() > skewWarn+took/2 {
			state = checkup.Warn
		}
		e.Add(state, "clock", fmt.Sprintf("%s is %v ahead of this machine, ±%v", whose, ahead.Round(time.Millisecond), (took/2).Round(100*time.Microsecond)),
			"synchronize the clocks by NTP: the nats-servers judge leases, and their clocks must agree")
	}
	if e.state != nil {
		apart("the leader of "+e.s.state.stream, e.addDenied, func() (time.Time, error) {
			info, err := e.s.leaderInfo(ctx, e.s.state.stream)
			if err != nil {
				return time.Time{}, err
			}
			return info.TimeStamp, nil
		})
	}
	for _, m := range e.s.o.Monitors {
		apart(m, e.addNoResponse, func() (time.Time, error) {
			var v struct {
				Now time.Time `json:"now"`
			}
			err := monitor.Get(ctx, m+"/varz", &v)
			return v.Now, err
		})
	}
}
