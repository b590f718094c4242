// Package pulse counts the results of delivery attempts in the last hour, by the minute and in bounded memory. It does
// so for the process, for each event type and for each host. The caller reports every attempt to a [Recorder], and the
// lag of subscriptions once a minute. A Recorder does not start a goroutine and reads the caller's clock. The package
// makes no compatibility promise.
package pulse

import (
	"container/list"
	"sync"
	"time"
)

const (
	// Minutes is the number of minutes that are kept.
	Minutes = 60
	// Kept is the number of event types, and of hosts, that are kept. A ring takes 9,600 bytes, or 10 KB with its name
	// and the allocator's rounding: all rings take at most 10.5 MB. Rings are allocated on first use.
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

// A ring has the minutes of one counter. Minute m is at index m % Minutes; a different minute found there is obsolete.
type ring [Minutes]minute

// of returns the bucket of minute m.
func (r *ring) of(m int32) *minute {
	b := &r[m%Minutes]
	if b.at != m {
		*b = minute{at: m, behind: -1}
	}
	return b
}

// A series is the ring of a name, complete since a time.
type series struct {
	name  string
	since time.Time
	ring  ring
}

// A family has the rings of up to Kept event types or hosts. It evicts the least recently used one.
type family struct {
	byName map[string]*list.Element // of *series
	used   list.List                // the most recently used first
	lost   bool                     // a ring was evicted
}

// touch returns the series of a name and marks it as used now.
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

// sample records the lag of each name, 0 for a name that is not in the map. A name without a ring gets one only if
// there is room: it does not evict another.
func (f *family) sample(behind map[string]int64, m int32, start, now time.Time) {
	for name, e := range f.byName {
		e.Value.(*series).ring.of(m).behind = behind[name]
	}
	for name, n := range behind {
		if f.used.Len() >= Kept {
			return
		}
		if n > 0 && f.byName[name] == nil {
			f.touch(name, start, now).ring.of(m).behind = n
		}
	}
}

// A Recorder counts attempts. It is safe for concurrent use. Its methods only wait for each other.
type Recorder struct {
	now   func() time.Time
	start time.Time

	mu     sync.Mutex
	whole  ring
	events family
	hosts  family
}

// New returns a Recorder that reads the time from now. The caller may hold locks that now does not take.
func New(now func() time.Time) *Recorder {
	r := &Recorder{now: now, start: now()}
	r.events.byName, r.hosts.byName = map[string]*list.Element{}, map[string]*list.Element{}
	return r
}

// number returns the number of the minute that contains t.
func number(t time.Time) int32 { return int32(max(0, t.Unix()) / 60) }

// Attempt counts an attempt to deliver an event of a type to a host. took is the time until the endpoint answered or
// the attempt timed out; it is negative for other failures. The attempt counts in the minute in which it ends. Attempt
// only allocates the ring of a new name.
func (r *Recorder) Attempt(event, host string, failed bool, took time.Duration) {
	now := r.now()
	m, class := number(now), classOf(took)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, to := range [...]*ring{&r.whole, &r.events.touch(event, r.start, now).ring, &r.hosts.touch(host, r.start, now).ring} {
		b := to.of(m)
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

// Behind records the lag, in log entries, of the slowest subscription of each event type and to each host. A name that
// is not in a map has a lag of 0.
func (r *Recorder) Behind(events, hosts map[string]int64) {
	now, most := r.now(), int64(0)
	for _, n := range events {
		most = max(most, n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := number(now)
	r.whole.of(m).behind = most
	r.events.sample(events, m, r.start, now)
	r.hosts.sample(hosts, m, r.start, now)
}

// Whole returns the last hour of the process.
func (r *Recorder) Whole() Hour { return r.hour(nil, "") }

// Event returns the last hour of an event type.
func (r *Recorder) Event(name string) Hour { return r.hour(&r.events, name) }

// Host returns the last hour of a host.
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
