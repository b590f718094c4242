package jetstream_test

import (
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/clustertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

// The cluster suite on three nats-servers. Every second process gets no republished messages, and looks often
// (REP-2). Their clocks are apart, as after a leader that was ahead, because a clock never moves backward (REP-8, JS-33).
func TestCluster(t *testing.T) {
	clustertest.Run(t, clustertest.Engine{
		Lease: 6 * time.Second, // joining takes several round trips
		New: func(t *testing.T) clustertest.Store {
			o := jetstream.Options{Namespace: space()}
			opened := 0
			openOne := func() engine.Shared {
				deaf, o := opened%2 == 1, o
				if deaf {
					o.Poll = 100 * time.Millisecond
				}
				s := open(t, cluster[opened%3].ClientURL(), o)
				s.Hear(time.Now().Add(time.Duration(opened%3) * 450 * time.Millisecond))
				if deaf {
					s.Deafen()
				}
				opened++
				return s
			}
			unmark := func(log string) {
				_, js := raw(t, urls(cluster...))
				stream := check.Must(js.Stream(t.Context(), jetstream.StateStream(o.Namespace)))(t)
				if err := stream.Purge(t.Context(), natsjs.WithPurgeSubject(jetstream.Marks(o.Namespace, log))); err != nil {
					t.Fatal(err)
				}
			}
			return clustertest.Store{Open: openOne, Unmark: unmark}
		},
		Run: func(t *testing.T, f func(t *testing.T)) {
			t.Parallel()
			f(t)
		},
	})
}
