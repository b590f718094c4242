// Package pulse counts the results of delivery attempts per minute for the last hour, using bounded memory. It
// maintains counts for the process, for each event type and for each host. The caller reports every attempt to a
// [Recorder], and the lag of subscriptions once per minute. A Recorder does not start goroutines and uses the caller's
// clock. The package has no compatibility guarantee.
package pulse

import (
	"container/list"
	"sync"
	"time"
)

const (
	// Minutes is the number of minutes for which counts are kept.
	Minutes = 60
	// Kept is the maximum number of event types and the maximum number of hosts for which counts are kept. A ring
	// occupies 9,600 bytes, or 10 KB including its name and the allocator's rounding. All rings together occupy at most
	// 10.5 MB. Rings are allocated on first use.
	Kept = 512
)

// A minute is one bucket of a ring.
type minute struct {
	at       int32 // minutes since 1970
	failures uint32
	untimed  uint32 // attempts whose duration does not describe the endpoint
	behind   int64  // -1 until it is sampled
	took     histogram
}

// A ring contains the minutes of one counter. Minute m is stored at index m % Minutes. Any other minute stored there is
// obsolete.
type ring [Minutes]minute

// bucket returns the bucket of minute m, clearing an obsolete one.
func (r *ring) bucket(m int32) *minute {
	b := &r[m%Minutes]
	if b.at != m {
		*b = minute{at: m, behind: -1}
	}
	return b
}

// A series is the ring for an event type or host. Its counts are complete since a given time.
type series struct {
	name  string
	since time.Time
	ring  ring
}

// A family contains the rings of up to Kept event types or hosts. It evicts the least recently used ring.
type family struct {
	byName map[string]*list.Element // of *series
	used   list.List                // the most recently used first
	lost   bool                     // a ring was evicted
}

// touch returns the series for a name and marks it as most recently used.
func (f *family) touch(name string, start, now time.Time) *series {
	if e := f.byName[name]; e != nil {
		f.used.MoveToFront(e)
		return e.Value.(*series)
	}
	if f.lost || f.used.Len() >= Kept {
		start = now // earlier counts may have been evicted
	}
	if f.used.Len() < Kept {
		s := &series{name: name, since: start}
		f.byName[name] = f.used.PushFront(s)
		return s
	}
	f.lost = true
	e := f.used.Back()
	s := e.Value.(*series)
	delete(f.byName, s.name)
	*s = series{name: name, since: start}
	f.byName[name] = e
	f.used.MoveToFront(e)
	return s
}

// sample records the lag of each name. A name that is not in the map has a lag of 0. sample never evicts a ring to
// create another.
func (f *family) sample(behind map[string]int64, m int32, start, now time.Time) {
	for name, e := range f.byName {
		e.Value.(*series).ring.bucket(m).behind = behind[name]
	}
	for name, n := range behind {
		if f.used.Len() >= Kept {
			return
		}
		if n > 0 && f.byName[name] == nil {
			f.touch(name, start, now).ring.bucket(m).behind = n
		}
	}
}

// A Recorder counts attempts. It is safe for concurrent use. Its methods block only on each other.
type Recorder struct {
	now   func() time.Time
	start time.Time

	mu     sync.Mutex
	whole  ring
	events family
	hosts  family
}

// New returns a Recorder that calls now to get the current time. Callers of its methods may hold locks that
// now does not acquire.
func New(now func() time.Time) *Recorder {
	r := &Recorder{now: now, start: now()}
	r.events.byName, r.hosts.byName = map[string]*list.Element{}, map[string]*list.Element{}
	return r
}

// number returns the number of the minute that contains t.
func number(t time.Time) int32 { return int32(max(0, t.Unix()) / 60) }

// Attempt counts an attempt to deliver an event to a host. took is the time until the endpoint responded or the attempt
// timed out. It is negative for other failures. The attempt is counted in the minute in which it ends. Attempt
// allocates memory only for the ring of a new name.
func (r *Recorder) Attempt(event, host string, failed bool, took time.Duration) {
	now := r.now()
	m, class := number(now), classOf(took)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, to := range [...]*ring{&r.whole, &r.events.touch(event, r.start, now).ring, &r.hosts.touch(host, r.start, now).ring} {
		b := to.bucket(m)
		if took >= 0 {
			b.took[class]++
		} else {
			b.untimed++
		}
		if failed {
			b.failures++
		}
	}
}

// Behind records the lag of the slowest subscription for each event type and each host, in log entries. A name that is
// not in a map has a lag of 0.
func (r *Recorder) Behind(events, hosts map[string]int64) {
	now, most := r.now(), int64(0)
	for _, n := range events {
		most = max(most, n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := number(now)
	r.whole.bucket(m).behind = most
	r.events.sample(events, m, r.start, now)
	r.hosts.sample(hosts, m, r.start, now)
}

// Whole returns the figures of the process for the last hour.
func (r *Recorder) Whole() Hour { return r.hour(nil, "") }

// Event returns the figures of an event type for the last hour.
func (r *Recorder) Event(name string) Hour { return r.hour(&r.events, name) }

// Host returns the figures of a host for the last hour.
func (r *Recorder) Host(name string) Hour { return r.hour(&r.hosts, name) }

func (r *Recorder) hour(f *family, name string) Hour {
	now, since := r.now(), r.start
	var copied ring
	r.mu.Lock()
	if f == nil {
		copied = r.whole
	} else if e := f.byName[name]; e != nil {
		s := e.Value.(*series)
		copied, since = s.ring, s.since
	} else if f.lost {
		since = now
	}
	r.mu.Unlock()
	return hourOf(&copied, since, now)
}
