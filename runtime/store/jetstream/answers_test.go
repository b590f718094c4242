package jetstream_test

import (
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

// Only answers of the leader count for information on a stream, and for a proof only those of the leader that gave
// the proof (JS-9). A server that has just started answers before it has caught up; a server that was paused or cut
// off considers itself the leader until it hears of another one; and a newly elected leader may not have all
// messages.
func TestWhoAnswers(t *testing.T) {
	now := time.Now()
	const within = 20 * time.Millisecond // since the proof began
	for name, c := range map[string]struct {
		cluster      *natsjs.ClusterInfo
		leads, ruled bool
	}{
		"a server without a cluster":              {nil, true, true},
		"a stream on one server of a cluster":     {&natsjs.ClusterInfo{Leader: "n0"}, true, true},
		"nobody leads":                            {&natsjs.ClusterInfo{RaftGroup: "g"}, false, false},
		"another one leads":                       {&natsjs.ClusterInfo{RaftGroup: "g", Leader: "n1", Replicas: heard(time.Millisecond, time.Millisecond)}, false, false},
		"it leads":                                {led(now.Add(-time.Hour), time.Millisecond, time.Millisecond), true, true},
		"one of the others is away":               {led(now.Add(-time.Hour), time.Minute, time.Millisecond), true, true},
		"of one of the others it has never heard": {led(now.Add(-time.Hour), 0, time.Millisecond), true, true},
		"it has not heard of any since":           {led(now.Add(-time.Hour), 15*time.Second, 21*time.Millisecond), true, false},
		"it has never heard of any":               {led(now.Add(-time.Hour), 0, 0), true, false},
		"it has been elected since":               {led(now.Add(-within/2), time.Millisecond, time.Millisecond), true, false},
		"its clock was set back":                  {led(now.Add(time.Hour), time.Millisecond, time.Millisecond), true, true},
	} {
		info := &natsjs.StreamInfo{Cluster: c.cluster, TimeStamp: now}
		if got := jetstream.Leads(info); got != c.leads {
			t.Errorf("%s: leads is %v", name, got)
		}
		if got := c.leads && jetstream.Ruled(info, within); got != c.ruled {
			t.Errorf("%s: ruled is %v", name, got)
		}
	}
}

// led returns the information of a leader, with the time since it last heard from each other server.
func led(since time.Time, active ...time.Duration) *natsjs.ClusterInfo {
	return &natsjs.ClusterInfo{RaftGroup: "g", Leader: "n0", LeaderSince: &since, Replicas: heard(active...)}
}

func heard(active ...time.Duration) (all []*natsjs.PeerInfo) {
	for _, d := range active {
		all = append(all, &natsjs.PeerInfo{Active: d})
	}
	return all
}

// A log does not end because a server that has just started does not know its stream: a proof shows that the stream
// exists (JS-9, JS-13).
func TestStreamNotKnownYet(t *testing.T) {
	for name, look := range map[string]func(s *jetstream.Store, l engine.Log) error{
		"a look": func(_ *jetstream.Store, l engine.Log) error { _, err := l.CatchUp(t.Context(), 9); return err },
		"a group of appends": func(s *jetstream.Store, _ engine.Log) error {
			_, err := s.AppendGroup(t.Context(), "log", []store.Outgoing{{Entry: check.Entry("1"), Once: true}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := wiredStore(t)
			l := check.OpenLog(t, s, "log", bounded).(engine.Log)
			check.Add(t, l, 3)
			s.Absent()
			if err := look(s, l); err != nil {
				t.Error(err)
			}
			if n := len(check.Read(t, l, 0, 9).Entries); n < 3 {
				t.Errorf("%d entries", n)
			}
		})
	}
}
