package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/cluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// REP-19: when the database was replaced by one that may lack commits, servers go on in a new epoch
// without a restart: streams that wait hear of it, emits go to the new log, cursors of before are
// truncated and continue, and so does the control log.
func TestREP19ServersGoOnInANewEpoch(t *testing.T) {
	schema := pgtest.Schema(t)
	a, b := newMember(t, schema, postgres.Options{}, Options{}), newMember(t, schema, postgres.Options{}, Options{})
	ea := register(t, a.Server, "e", Hooks[filterArgs, incident]{})
	register(t, b.Server, "e", Hooks[filterArgs, incident]{})
	start := pollFrom(t, a.Server, nil, "")
	for i := range 4 {
		emit(t, ea, incident{ID: fmt.Sprint(i)})
	}
	old := pollFrom(t, a.Server, start.Cursor, "")
	streams := []*live{stream(t, a.Server, `{"name":"e","arguments":{"severity":"P1"}}`), stream(t, b.Server, `{"name":"e"}`)}
	for _, l := range streams {
		waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
	}
	epoch, orders := a.types["e"].topic.Epoch(), orderEpoch(t, b)
	// The last two commits are lost, and the store's generation is raised as a changed timeline raises it.
	pgtest.Exec(t, pgtest.URL(t),
		fmt.Sprintf(`DELETE FROM %s.entries e USING %[1]s.logs l WHERE e.log = l.id AND l.name = 'e' AND e.position > 2`, schema),
		fmt.Sprintf(`UPDATE %s.logs SET head = 2 WHERE name = 'e'`, schema),
		fmt.Sprintf(`DELETE FROM %s.leases`, schema),
		fmt.Sprintf(`UPDATE %s.store SET generation = generation + 1`, schema))
	waitUntil(t, "b, which appends nothing, goes on in the new epoch", func() bool { return b.types["e"].topic.Epoch() != epoch })
	// The last one lost is emitted again under its id, and one that is new.
	emit(t, ea, incident{ID: "3", Severity: "P1"})
	emit(t, ea, incident{ID: "new", Severity: "P1"})
	for i, want := range []string{"3 new", "0 1 3 new"} { // b's stream begins again at the oldest
		l := streams[i]
		waitUntil(t, "what follows", func() bool { return strings.HasSuffix(strings.Join(l.ids(), " "), want) })
		told := false
		for _, f := range l.frames()[1:] {
			told = told || f.params.Truncated
		}
		if !told {
			t.Errorf("stream %d was not told of the gap: %v", i, l.shorts())
		}
	}
	for _, m := range []member{a, b} {
		r := pollFrom(t, m.Server, old.Cursor, "")
		if !*r.Truncated || strings.Join(r.ids(), " ") != "0 1 3 new" {
			t.Errorf("a cursor of the old epoch: truncated %v, %v", *r.Truncated, r.ids())
		}
		if r = pollFrom(t, m.Server, r.Cursor, ""); *r.Truncated || len(r.Events) != 0 {
			t.Errorf("a cursor of the new epoch: truncated %v, %v", *r.Truncated, r.ids())
		}
	}
	l := streamAs(t, b.Server, "ann", `{"name":"e"}`)
	waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
	waitUntil(t, "b follows the control log of the new epoch", func() bool { return orderEpoch(t, b) != orders })
	if err := a.Revoke(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	<-l.done
}

func orderEpoch(t *testing.T, m member) uint64 {
	t.Helper()
	log, err := m.processes().(*cluster.Many).EventLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return log.Epoch()
}
