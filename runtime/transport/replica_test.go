package transport

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
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
		rigs = append(rigs, newRig(t, server.Options{Store: st}))
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
