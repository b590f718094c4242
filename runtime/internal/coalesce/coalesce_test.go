package coalesce

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A model of a joiner: a list of bursts in the order of their first events, looked through for everything.
type model struct {
	rule Rule
	open []*Burst[int]
}

// due takes the burst whose time came first; of several with that time, the one of the key.
func (m *model) due(now time.Time, key string) *Burst[int] {
	best, at := -1, now
	for i, b := range m.open {
		if end := m.end(b); end.Before(at) || end.Equal(at) && (best < 0 || b.Key == key) {
			best, at = i, end
		}
	}
	if best < 0 {
		return nil
	}
	b := m.open[best]
	m.open = slices.Delete(m.open, best, best+1)
	return b
}

func (m *model) end(b *Burst[int]) time.Time {
	end := b.First.Add(m.rule.Max)
	if quiet := b.Last.Add(m.rule.Quiet); quiet.Before(end) {
		return quiet
	}
	return end
}

func (m *model) add(key string, e int, now time.Time) (early *Burst[int]) {
	i := slices.IndexFunc(m.open, func(b *Burst[int]) bool { return b.Key == key })
	if i < 0 {
		if len(m.open) == m.rule.Limit {
			early, m.open = m.open[0], m.open[1:]
		}
		i, m.open = len(m.open), append(m.open, &Burst[int]{Key: key, First: now})
	}
	b := m.open[i]
	b.Events, b.Count, b.Last = append(b.Events, e), b.Count+1, now
	return early
}

func same(a, b *Burst[int]) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Key == b.Key && a.Count == b.Count && slices.Equal(a.Events, b.Events) && a.First.Equal(b.First) && a.Last.Equal(b.Last))
}

// COAL-4: a joiner does what its model does: it loses and repeats nothing, keeps the order of each key, hands a burst over
// no earlier and no later than its times say, and keeps no more keys open than its limit.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quiet := rapid.IntRange(1, 9).Draw(t, "quiet")
		rule := Rule{Quiet: time.Duration(quiet), Max: time.Duration(quiet + rapid.IntRange(0, 20).Draw(t, "beyond")), Limit: rapid.IntRange(1, 6).Draw(t, "limit")}
		j, m := New[int](rule, nil), &model{rule: rule}
		latest := New(rule, func(_, next int) int { return next })
		now := time.Unix(1000, 0)
		taken := map[string][]int{}
		sent := map[string][]int{}
		check := func(what string, got, want, last *Burst[int]) {
			if !same(got, want) {
				t.Fatalf("%s: %+v, want %+v", what, got, want)
			}
			if got == nil {
				if last != nil {
					t.Fatalf("%s: latest: %+v, want none", what, last)
				}
				return
			}
			if last == nil || last.Count != got.Count || !slices.Equal(last.Events, got.Events[len(got.Events)-1:]) {
				t.Fatalf("%s: latest: %+v, want the last of %+v", what, last, got)
			}
			taken[got.Key] = append(taken[got.Key], got.Events...)
		}
		pass := func() {
			for {
				got, key := j.Due(now), ""
				if got != nil {
					key = got.Key
				}
				check("due", got, m.due(now, key), latest.Due(now))
				if got == nil {
					break
				}
			}
			at, ok := j.Next()
			if ok != (len(m.open) > 0) || ok && !at.After(now) || j.Open() != len(m.open) || j.Open() > rule.Limit {
				t.Fatalf("next %v %v, %d open, want %d", at, ok, j.Open(), len(m.open))
			}
			for _, b := range m.open {
				if m.end(b).Before(at) {
					t.Fatalf("next %v, but %q is due at %v", at, b.Key, m.end(b))
				}
			}
		}
		for n := range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "step")))
			pass()
			key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"}).Draw(t, "key")
			sent[key] = append(sent[key], n)
			check("early", j.Add(key, n, now), m.add(key, n, now), latest.Add(key, n, now))
		}
		if rapid.Bool().Draw(t, "rest by age") {
			for len(m.open) > 0 {
				want := m.open[0]
				m.open = m.open[1:]
				if oldest := j.Oldest(); !same(oldest, want) {
					t.Fatalf("oldest %+v, want %+v", oldest, want)
				}
				check("oldest", j.TakeOldest(), want, latest.TakeOldest())
			}
		}
		now = now.Add(rule.Max)
		pass()
		if j.TakeOldest() != nil || j.Oldest() != nil || j.Open() != 0 {
			t.Fatal("something is left")
		}
		for key := range sent {
			if !slices.Equal(sent[key], taken[key]) {
				t.Fatalf("%s: handed over %v, want %v", key, taken[key], sent[key])
			}
		}
	})
}

// A clock that goes back makes no burst wait longer, and no order of the lists wrong.
func TestTimeGoesBack(t *testing.T) {
	j := New[int](Rule{Quiet: 10, Max: 100, Limit: 9}, nil)
	now := time.Unix(1000, 0)
	j.Add("a", 1, now)
	j.Add("b", 2, now.Add(-50))
	if b := j.Due(now.Add(9)); b != nil {
		t.Errorf("%+v", b)
	}
	for _, key := range []string{"a", "b"} {
		if b := j.Due(now.Add(10)); b == nil || b.Key != key {
			t.Errorf("%+v, want %s", b, key)
		}
	}
}

func TestKey(t *testing.T) {
	const payload = ` {"id":7,"a/b":{"~":"x,\u0079"},"on":true,"none":null,"list":[{"n":1.50},2],"o":{},"huge":1e400,"":"e"}`
	for _, c := range []struct {
		places, want string
	}{
		{"/id", "7"}, {"/a~1b/~0", `"x,y"`}, {"/on", "true"}, {"/id /on", "7,true"}, {"/list/0/n", "1.5"}, {"/list/1", "2"}, {"/huge", "1e400"}, {"/", `"e"`},
		{"/none", ""}, {"/missing", ""}, {"/o", ""}, {"/list", ""}, {"/list/2", ""}, {"/list/01", ""}, {"/list/-1", ""}, {"/list/x", ""}, {"/id/x", ""},
		{"/id /missing", ""}, {"id", ""}, {"", ""},
	} {
		got, ok := Key(strings.Split(c.places, " "), json.RawMessage(payload))
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %s %v, want %s", c.places, got, ok, c.want)
		}
	}
	for _, bad := range []string{"", "null", "7", "[]", "{", `{"id":`} {
		if got, ok := Key([]string{"/id"}, json.RawMessage(bad)); ok {
			t.Errorf("%s: %s", bad, got)
		}
	}
	one, _ := Key([]string{"/id"}, json.RawMessage(`{"id":1.0}`))
	other, _ := Key([]string{"/id"}, json.RawMessage(`{"id":1}`))
	text, _ := Key([]string{"/id"}, json.RawMessage(`{"id":"1"}`))
	if one != other || one == text {
		t.Errorf("%s, %s, %s", one, other, text)
	}
}

// BenchmarkOpen is what 100,000 open keys take, of which each had three events.
func BenchmarkOpen(b *testing.B) {
	const keys = 100_000
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		j := New(Rule{Quiet: time.Hour, Max: time.Hour, Limit: keys}, func(_, next *[16]byte) *[16]byte { return next })
		now := time.Unix(1000, 0)
		for n := range 3 * keys {
			j.Add(fmt.Sprint("key ", n%keys), new([16]byte), now)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if j.Open() != keys {
			b.Fatal(j.Open())
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/keys, "B/key")
		runtime.KeepAlive(j)
	}
}

// BenchmarkAdd adds events of 1,000 keys.
func BenchmarkAdd(b *testing.B) {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	j := New(Rule{Quiet: time.Second, Max: time.Minute, Limit: len(keys)}, func(_, next int) int { return next })
	now := time.Unix(1000, 0)
	b.ReportAllocs()
	for n := range b.N {
		now = now.Add(time.Millisecond)
		for burst := j.Due(now); burst != nil; burst = j.Due(now) {
		}
		j.Add(keys[n*7919%len(keys)], n, now)
	}
}
