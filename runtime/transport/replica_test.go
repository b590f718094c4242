package transport

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// newReplicas are servers on one database, each behind a socket of its own.
func newReplicas(t *testing.T, n int) (rigs []*rig) {
	schema := pgtest.Schema(t)
	for range n {
		st, err := postgres.Open(context.Background(), pgtest.URL(t), postgres.Options{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		rigs = append(rigs, newRig(t, server.Options{Store: st, Replicas: replicas.New(replicas.Options{})}))
	}
	return rigs
}

// REP-14 and REP-15: over real HTTP a client of 2026-07-28 goes on at another process with its cursor. A
// session of an older revision is unknown there: 404, after which a new session goes on from the cursor.
func TestREP15SessionsLiveInOneProcess(t *testing.T) {
	for _, m := range modes {
		if !m.http {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			rigs := newReplicas(t, 2)
			a, b := rigs[0].connect(m, HandlerOptions{}).(*httpClient), rigs[1].connect(m, HandlerOptions{}).(*httpClient)
			boot := a.rpc(`1`, wire.MethodPoll, `{"name":"tick"}`)
			rigs[0].emit(1)
			rigs[1].emit(2)
			cursor := string(member(boot.result, "cursor"))
			if !m.modern() {
				resp := b.post(t.Context(), m.request(`2`, wire.MethodPoll, `{"name":"tick","cursor":`+cursor+`}`),
					map[string]string{headerSession: a.header.Get(headerSession)})
				resp.Body.Close()
				if resp.StatusCode != http.StatusNotFound {
					t.Errorf("a session of the other process: %s", resp.Status)
				}
			}
			f := b.stream(`3`, `{"name":"tick","cursor":`+cursor+`}`)
			active := f.want(wire.NotificationActive)
			if string(member(active.params, "truncated")) != "false" {
				t.Errorf("active %s", active.params)
			}
			for range 2 {
				cursor = string(member(f.want(wire.NotificationEvent).params, "cursor"))
			}
			f.cancel()
			rigs[1].emit(3)
			got := a.rpc(`4`, wire.MethodPoll, `{"name":"tick","timeoutMs":20000,"cursor":`+cursor+`}`)
			if seq := string(member(got.result, "events")); len(seq) < 3 || string(member(got.result, "truncated")) != "false" {
				t.Errorf("back at the first: %s", got.result)
			}
		})
	}
}

// A roundRobin gives each request to the next process, as a balancer without rules does.
type roundRobin struct {
	all  []http.Handler
	next atomic.Uint32
}

func (b *roundRobin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.all[int(b.next.Add(1))%len(b.all)].ServeHTTP(w, r)
}

// REP-15: without sessions a client of an older revision works with several processes at a balancer that knows nothing of
// it: initialize, tools, polls with a cursor, streams.
func TestREP15OlderRevisionsBehindRoundRobin(t *testing.T) {
	for _, m := range []mode{modes[2], modes[4], oldHTTP} {
		inBubble(t, m.name, func(t *testing.T) {
			c := memcluster.New()
			var rigs []*rig
			balancer := &roundRobin{}
			for range 2 {
				g := newRig(t, server.Options{Store: c.Open(), Replicas: replicas.New(replicas.Options{})})
				rigs = append(rigs, g)
				balancer.all = append(balancer.all, bearer(NewHandler(g.es, HandlerOptions{Streamable: &mcp.StreamableHTTPOptions{Stateless: true}})))
				defer g.stop()
			}
			w := rigs[0].listen(m, balancer)
			client := rigs[0].dial(m, w.URL, w.Client())
			if client.header.Get(headerSession) != "" {
				t.Fatal("there is a session")
			}
			var cursor string
			for i := range 4 { // an even number of requests comes in between
				if r := client.rpc(fmt.Sprint(2*i), methodCall, `{"name":"noop","arguments":{}}`); r.result == nil {
					t.Fatalf("tool: %s", r.error)
				}
				params := `{"name":"tick"}`
				if cursor != "" {
					params = `{"name":"tick","cursor":` + cursor + `}`
				}
				r := client.rpc(fmt.Sprint(2*i+1), wire.MethodPoll, params)
				if r.result == nil || string(member(r.result, "truncated")) != "false" {
					t.Fatalf("poll: %s%s", r.result, r.error)
				}
				if got := strings.Count(string(r.result), "eventId"); got != min(i, 1) {
					t.Errorf("poll %d: %s", i, r.result)
				}
				cursor = string(member(r.result, "cursor"))
				rigs[i%2].emit(i)
				client.notify("notifications/initialized", `{}`)
				synctest.Wait() // the other process has heard of the event
			}
			for i := range 2 {
				f := client.stream(fmt.Sprintf(`"s%d"`, i), `{"name":"tick","cursor":`+cursor+`}`)
				f.want(wire.NotificationActive)
				f.want(wire.NotificationEvent)
				f.cancel()
			}
		})
	}
}
