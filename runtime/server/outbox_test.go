package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/metertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// K3: who may only insert into the outbox gives no orders and emits nothing that Emit would refuse. What is
// rejected is counted and shown, and put back or dropped by the operator (K2).
func TestREP20TheOutboxGivesNoRights(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	meter := &metertest.Meter{}
	m := newMember(t, schema, postgres.Options{}, Options{Telemetry: meter.Recorder(nil)})
	e := buildOf(t, m.Server, oldPayload)
	start := pollFrom(t, m.Server, nil, "").Cursor
	l := stream(t, m.Server, `{"name":"e"}`)
	waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
	insert := func(log, id, data, meta string) {
		pgtest.Exec(t, pgtest.URL(t), fmt.Sprintf(`INSERT INTO %s.outbox (log, event_id, timestamp, data, meta, once, above)
			VALUES ('%s', '%s', '2026-01-01T00:00:00Z', '%s', %s, false, 0)`, schema, log, id, data, meta))
	}
	good := `{"id":"good","level":1}`
	bad := []struct{ log, id, data, meta, reason string }{
		{"/control", "o", `{"kind":"revoke","at":"2100-01-01T00:00:00Z"}`, "NULL", "servers"},
		{"e", "json", "not json", "NULL", "JSON object"},
		{"e", "array", "[]", "NULL", "JSON object"},
		{"e", "twice", `{"id":"a","id":"b"}`, "NULL", "valid JSON"},
		{"e", "lines", "{\n\"id\":\"a\"}", "NULL", "line break"},
		{"e", "schema", `{"id":1}`, "NULL", "id"},
		{"e", "an id", good, "NULL", "event id"},
		{"e", strings.Repeat("x", wire.MaxEventID+1), good, "NULL", "event id"},
		{"e", "meta", good, `'[]'`, "_meta"},
		{"e", "deep", good, `'{"k":` + strings.Repeat("[", 9_998) + strings.Repeat("]", 9_998) + `}'`, "9000"},
		{"e", "hollow", good, `'{ }'`, "_meta"},
		{"e", "ours", good, `'{"` + wire.MetaSubscriptionID + `":7}'`, wire.MetaSubscriptionID},
		{"e", "large", `{"id":"` + strings.Repeat("x", 2<<20) + `"}`, "NULL", "at most 1048576"},
	}
	for _, b := range bad {
		insert(b.log, b.id, b.data, b.meta)
	}
	insert("e", "good", good, `'{"k":1}'`)
	waitUntil(t, "the good one", func() bool { return len(l.ids()) > 0 })
	emit(t, e, incident{ID: "emitted"})
	waitUntil(t, "the emitted one", func() bool { return len(l.ids()) > 1 })
	wantStrings(t, "stream", l.ids(), "good", "emitted")
	wantStrings(t, "poll", pollFrom(t, m.Server, start, "").ids(), "good", "emitted")
	a := m.Admin()
	var found []operator.Rejected
	waitUntil(t, "all are rejected", func() bool {
		var err error
		if found, err = a.Rejected(t.Context(), 0, 100); err != nil {
			t.Fatal(err)
		}
		return len(found) == len(bad)
	})
	for i, b := range bad {
		if r := found[i]; !strings.Contains(r.Reason, b.reason) || r.Log != b.log || !strings.HasPrefix(b.id, r.EventID) {
			t.Errorf("%.20s: %+v", b.id, r)
		}
	}
	waitUntil(t, "each is counted", func() bool { return meter.Counted()["mcp.events.outbox.rejected"] == int64(len(bad)) })
	// Repaired by SQL and put back it arrives.
	pgtest.Exec(t, pgtest.URL(t), fmt.Sprintf(`UPDATE %s.rejected SET data = '{"id":"repaired"}' WHERE event_id = 'json'`, schema))
	if err := a.PutBack(t.Context(), found[1].ID); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "what was put back", func() bool { return len(l.ids()) > 2 })
	if err := a.Drop(t.Context(), found[2].ID); err != nil {
		t.Fatal(err)
	}
	for _, do := range []error{a.Drop(t.Context(), found[2].ID), a.PutBack(t.Context(), found[1].ID)} {
		if !errors.Is(do, events.ErrNotFound) {
			t.Errorf("twice: %v", do)
		}
	}
	if left, err := a.Rejected(t.Context(), 0, 100); err != nil || len(left) != len(bad)-2 {
		t.Errorf("%d are left, %v", len(left), err)
	}
}

// An apart outbox is not its store.
type apart struct{ engine.Outbox }

// REP-20: what transactions emit may wait elsewhere than in the store; the store's own outbox is then not looked at.
func TestREP20AnOutboxApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		st, other := c.Open(), memcluster.New().Open()
		s, err := New(mcp.NewServer(&mcp.Implementation{}, nil), Options{Store: st, Replicas: replicas.New(replicas.Options{}), Outbox: apart{c.Open()}})
		if err != nil {
			t.Fatal(err)
		}
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		emit := func(id string) {
			t.Helper()
			p, err := Prepare(t.Context(), e, incident{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			tx := st.Begin()
			if err := errors.Join(tx.Emit(p), tx.Commit()); err != nil {
				t.Fatal(err)
			}
		}
		emit("1")
		time.Sleep(time.Minute)
		if n := s.types["e"].topic.Head(); n != 1 {
			t.Errorf("head %d", n)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, bad := range []struct {
			o    Options
			want string
		}{
			{Options{Outbox: apart{other}}, "processes can share"},
			{Options{Store: memory.New(), Outbox: apart{other}}, "processes can share"},
			{Options{Store: st, Outbox: other}, "is a store"},
		} {
			if _, err := New(mcp.NewServer(&mcp.Implementation{}, nil), bad.o); err == nil || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("%v, want an error that says %q", err, bad.want)
			}
		}
		if _, err := NewEmitOnly(Options{Store: st, Outbox: apart{other}}); err == nil || !strings.Contains(err.Error(), "Options.Outbox") {
			t.Errorf("emit-only: %v", err)
		}
	})
}

// REP-16: what is valid under the schemas of another build is moved by this one.
func TestREP16OutboxOfAnotherBuild(t *testing.T) {
	schema := pgtest.Schema(t)
	older := newMember(t, schema, postgres.Options{}, Options{})
	buildOf(t, older.Server, strings.Replace(oldPayload, `"level":{"type":"number"}`, `"level":{"type":"number","maximum":1}`, 1))
	newer, st := newEmitOnly(t, schema, Options{})
	e := buildOf(t, newer, oldPayload)
	p, err := Prepare(t.Context(), e, incident{ID: "1", Level: 2})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return st.EmitPgx(t.Context(), tx, p) }); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "it is moved", func() bool { return older.types["e"].topic.Head() == 1 })
	if found, err := older.Admin().Rejected(t.Context(), 0, 10); err != nil || len(found) != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// K3: an entry that somebody has damaged in its log breaks no answer: it is passed over, and what follows arrives.
func TestOCC4DamagedEntry(t *testing.T) {
	st := memory.New()
	s := newServer(t, Options{Operators: operators.New(), Store: st})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	start := pollFrom(t, s, nil, "").Cursor
	follow, err := s.Admin().Tail("e")
	if err != nil {
		t.Fatal(err)
	}
	emit(t, e, incident{ID: "1"})
	l := s.types["e"]
	for _, data := range []string{"not json", "{\"id\":\n1}", `{"id":"2"}{`, ""} {
		if _, err := l.topic.Append(t.Context(), store.Entry{EventID: "x", Timestamp: events.NewTime(time.Unix(1, 0)), Data: json.RawMessage(data)}, false); err != nil {
			t.Fatal(err)
		}
	}
	emit(t, e, incident{ID: "3"})
	wantStrings(t, "poll", pollFrom(t, s, start, "").ids(), "1", "3")
	shown, _, err := follow.Next(t.Context())
	if err != nil || len(shown) != 6 {
		t.Fatalf("%d, %v", len(shown), err)
	}
	if _, err := json.Marshal(shown); err != nil {
		t.Errorf("the operator's tail: %v", err)
	}
}
