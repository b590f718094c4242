// Package pulse counts the results of the delivery attempts of the last hour: for the process, for each event type and
// for each host, by the minute and in bounded memory. A [Recorder] is told of every attempt, and once a minute of how
// far subscriptions are behind. It has no goroutine and no clock of its own. It makes no promise of compatibility.
package pulse

import (
	"container/list"
	"sync"
	"time"
)

const (
	// Minutes is how many minutes are kept.
	Minutes = 60
	// Kept is how many event types, and how many hosts, are kept. A ring is 9,120 bytes, and 9.5 KB with its name and what
	// the allocator rounds up: all of them together are at most 9.7 MB. No more are made than there is something to count for.
	Kept = 512
)

// A minute is one bucket of a ring.
type minute struct {
	at       int32 // minutes since 1970
	failures uint32
	behind   int64 // -1 until it is sampled
	took     histogram
}

// A ring has the minutes of one thing that is counted. Minute m is at m % Minutes; what else is found there is over.
type ring [Minutes]minute

// of returns the bucket of minute m.
func (r *ring) of(m int32) *minute {
	b := &r[m%Minutes]
	if b.at != m {
		*b = minute{at: m, behind: -1}
	}
	return b
}

// A series is the ring of a name, with since when it is complete.
type series struct {
	name  string
	since time.Time
	ring  ring
}

// A family is the rings of all event types, or of all hosts: of at most Kept, the least recently used one going first.
type family struct {
	byName map[string]*list.Element // of *series
	used   list.List                // the most recently used first
	lost   bool                     // one had to go
}

// touch returns the series of a name, which is used now.
func (f *family) touch(name string, start, now time.Time) *series {
	if e := f.byName[name]; e != nil {
		f.used.MoveToFront(e)
		return e.Value.(*series)
	}
	if f.lost || f.used.Len() >= Kept {
		start = now // what was before may have been forgotten
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

// sample enters how far each name is behind; what is not in the map is behind by nothing. One that has no ring gets
// one where there is room, and takes nobody's place.
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

// A Recorder counts attempts. It is safe for concurrent use, and none of its methods waits for anything but the others.
type Recorder struct {
	now   func() time.Time
	start time.Time

	mu     sync.Mutex
	whole  ring
	events family
	hosts  family
}

// New makes a Recorder that reads the time from now. Its methods may be called under locks that now does not need.
func New(now func() time.Time) *Recorder {
	r := &Recorder{now: now, start: now()}
	r.events.byName, r.hosts.byName = map[string]*list.Element{}, map[string]*list.Element{}
	return r
}

// number is the minute that a time is in.
func number(t time.Time) int32 { return int32(max(0, t.Unix()) / 60) }

// Attempt counts an attempt to deliver an event of a type to a host, which took that long until its answer or failure. It
// counts for the minute that it ends in. It allocates nothing but the ring of a name that has none.
func (r *Recorder) Attempt(event, host string, failed bool, took time.Duration) {
	now := r.now()
	m, class := number(now), classOf(took)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, to := range [...]*ring{&r.whole, &r.events.touch(event, r.start, now).ring, &r.hosts.touch(host, r.start, now).ring} {
		b := to.of(m)
		b.took[class]++
		if failed {
			b.failures++
		}
	}
}

// Behind enters by how many entries of its log the slowest subscription of each event type, and to each host, is behind.
// What is missing in a map is behind by nothing.
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

// Whole is the last hour of the process, Event that of an event type, and Host that of a host.
func (r *Recorder) Whole() Hour { return r.hour(nil, "") }

// Event is the last hour of an event type.
func (r *Recorder) Event(name string) Hour { return r.hour(&r.events, name) }

// Host is the last hour of a host.
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
