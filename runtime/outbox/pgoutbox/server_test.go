package pgoutbox_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/metertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/outbox/pgoutbox"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
)

const day = 24 * time.Hour

// The example prints the documented output.
func TestExample(t *testing.T) {
	dsn := pgtest.URL(t)
	t.Setenv("EVENTS_URL", dsn)
	t.Setenv("DATABASE_URL", dsn)
	t.Cleanup(func() {
		pgtest.Exec(t, dsn, "DROP SCHEMA IF EXISTS example_events CASCADE", "DROP SCHEMA IF EXISTS example_outbox CASCADE")
	})
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	must(t, err)
	defer file.Close()
	os.Stdout = file
	Example()
	got, err := os.ReadFile(file.Name())
	must(t, err)
	if string(got) != `{"ticketId":"T-1"}`+"\n" {
		t.Errorf("it prints %s", got)
	}
}

// A site is a server with events in memory and author's transactions in PostgreSQL.
type site struct {
	*server.Server
	created *server.Emitter[payload]
	box     *pgoutbox.Outbox
	schema  string
	store   *memcluster.Store
	meter   *metertest.Meter
	told    *logged
}

func newSite(t *testing.T, o server.Options) *site {
	t.Helper()
	s := &site{schema: pgtest.Schema(t), store: memcluster.New().Open(), meter: &metertest.Meter{}, told: &logged{}}
	logger := slog.New(slog.NewTextHandler(s.told, nil))
	s.box = openBox(t, pgtest.URL(t), s.schema, logger)
	o.Replicas, o.Operators = replicas.New(replicas.Options{}), operators.New()
	o.Store, o.Outbox, o.Telemetry, o.Logger = s.store, s.box.Relay(s.store), s.meter.Recorder(nil), logger
	var err error
	s.Server, err = server.New(mcp.NewServer(&mcp.Implementation{Name: "tickets"}, nil), o)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.created, err = server.Register(s.Server, ticketCreated, server.Hooks[arguments, payload]{})
	must(t, err)
	return s
}

func (s *site) ids(t *testing.T, log string) (ids []string) {
	t.Helper()
	l, err := s.store.OpenLog(t.Context(), log, store.LogOptions{})
	must(t, err)
	b, err := l.Read(t.Context(), 0, 1000)
	must(t, err)
	for _, e := range b.Entries {
		ids = append(ids, e.EventID)
	}
	return ids
}

// OB-3, REP-20: a role that may only insert into the outbox emits whatever the server accepts from Emit. Other rows
// are rejected, counted and repaired by the operator, and cannot reach the control log.
func TestOB3WhoMayInsert(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{Retention: server.Retention{MaxAge: day}})
	role := "author_" + s.schema
	dsn := pgtest.URL(t)
	pgtest.Exec(t, dsn, "CREATE ROLE "+role, "GRANT USAGE ON SCHEMA "+s.schema+" TO "+role, "GRANT INSERT ON "+s.schema+".outbox TO "+role,
		"GRANT USAGE ON SEQUENCE "+s.schema+".outbox_id_seq TO "+role)
	t.Cleanup(func() { pgtest.Exec(t, dsn, "DROP OWNED BY "+role, "DROP ROLE "+role) })
	conn := connect(t)
	_, err := conn.Exec(t.Context(), "SET ROLE "+role)
	must(t, err)

	occurrence, err := server.Prepare(t.Context(), s.created, payload{"good"}, events.WithID("good"))
	must(t, err)
	bad := []struct{ log, id, data, reason string }{
		{engine.ControlLog, "order", `{"kind":"revoke","at":"2100-01-01T00:00:00Z"}`, "internal to the servers"},
		{engine.AuditLog, "audit", `{}`, "internal to the servers"},
		{"ticket.created", "schema", `{"ticketId":1}`, "ticketId"},
		{"ticket.created", "json", `no`, "JSON"},
		{"ticket.deleted", "no-type", `{}`, "no server has registered"},
		{"ticket.created", "large", `{"ticketId":"` + strings.Repeat("x", 2<<20) + `"}`, "at most"},
	}
	must(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		for _, b := range bad {
			_, err := tx.Exec(t.Context(), "INSERT INTO "+s.schema+`.outbox (log, event_id, timestamp, data, once, above)
				VALUES ($1, $2, '2026-01-01T00:00:00Z', $3, false, 0)`, b.log, []byte(b.id), []byte(b.data))
			must(t, err)
		}
		return s.box.EmitPgx(t.Context(), tx, occurrence)
	}))
	for _, what := range []string{"outbox", "rejected", "version"} {
		if _, err := conn.Exec(t.Context(), "SELECT * FROM "+s.schema+"."+what); err == nil {
			t.Errorf("the author reads %s", what)
		}
	}
	enginetest.WaitUntil(t, "the good one is there", func() bool { return slices.Equal(s.ids(t, "ticket.created"), []string{"good"}) })
	var found []operator.Rejected
	enginetest.WaitUntil(t, "the others are rejected", func() bool {
		found, err = s.Admin().Rejected(t.Context(), 0, 100)
		must(t, err)
		return len(found) == len(bad)
	})
	for i, b := range bad {
		if got := found[i]; got.EventID != b.id || !strings.Contains(got.Reason, b.reason) {
			t.Errorf("%+v, want %s for that it says %q", got, b.id, b.reason)
		}
	}
	for _, log := range []string{engine.ControlLog, engine.AuditLog} {
		for _, id := range s.ids(t, log) {
			if id == "order" || id == "audit" {
				t.Errorf("%s has %s", log, id)
			}
		}
	}
	enginetest.WaitUntil(t, "each is counted", func() bool { return s.meter.Counted()["mcp.events.outbox.rejected"] == int64(len(bad)) })
	pgtest.Exec(t, dsn, `UPDATE `+s.schema+`.rejected SET data = '{"ticketId":"repaired"}' WHERE event_id = 'schema'`)
	must(t, s.Admin().PutBack(t.Context(), found[2].ID))
	must(t, s.Admin().Drop(t.Context(), found[0].ID))
	enginetest.WaitUntil(t, "what was repaired is there", func() bool { return slices.Equal(s.ids(t, "ticket.created"), []string{"good", "schema"}) })
}

// OB-5: while the logs cannot be appended to, a metric shows the waiting rows. Without the outbox's database, emits
// outside of transactions continue.
func TestOB5Away(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{Retention: server.Retention{MaxAge: day}})
	commit := func(id string) {
		t.Helper()
		occurrence, err := server.Prepare(t.Context(), s.created, payload{"T-1"}, events.WithID(id))
		must(t, err)
		tx := beginPgx(t, s.box)
		must(t, tx.Emit(occurrence))
		must(t, tx.Commit())
	}
	age := func() float64 { return s.meter.Observed(t)["mcp.events.outbox.age"] }
	// The owner's lease survives a short time without answers.
	enginetest.WaitUntil(t, "the outbox has an owner", func() bool { _, owned := s.meter.Observed(t)["mcp.events.outbox.age"]; return owned })
	s.store.Inject(memcluster.Faults{Fail: func(op string) error { return errTest }})
	commit("first")
	enginetest.WaitUntil(t, "that it waits is seen", func() bool { return age() > 0.2 })
	s.store.Inject(memcluster.Faults{})
	enginetest.WaitUntil(t, "nothing waits", func() bool { return age() == 0 && len(s.ids(t, "ticket.created")) == 1 })

	s.store.Inject(memcluster.Faults{Fail: func(op string) error {
		if strings.HasPrefix(op, "AppendGroup") {
			return errTest
		}
		return nil
	}})
	commit("waits")
	enginetest.WaitUntil(t, "that it waits is seen", func() bool { return age() > 0.5 })
	if rows, oldest, _, err := s.box.Waiting(t.Context()); rows != 1 || oldest < 500*time.Millisecond || err != nil {
		t.Errorf("%d rows wait, for %v, %v", rows, oldest, err)
	}
	must(t, s.created.Emit(t.Context(), payload{"T-2"}, events.WithID("beside")))
	s.store.Inject(memcluster.Faults{})
	enginetest.WaitUntil(t, "what waited is there", func() bool { return len(s.ids(t, "ticket.created")) == 3 })
	enginetest.WaitUntil(t, "nothing waits", func() bool { return age() == 0 })
	s.box.Close()
	must(t, s.created.Emit(t.Context(), payload{"T-3"}, events.WithID("without-the-database")))
	if got := s.ids(t, "ticket.created"); !slices.Equal(got, []string{"first", "beside", "waits", "without-the-database"}) {
		t.Errorf("the log has %q", got)
	}
}

// OB-1: Open warns about logs that may forget an id before a relay comes back.
func TestOB1Retention(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		age  time.Duration
		warn bool
	}{{0, true}, {time.Hour, true}, {time.Hour + 1, false}, {-1, false}} {
		s := newSite(t, server.Options{Retention: server.Retention{MaxAge: c.age}})
		if text := s.told.String(); strings.Contains(text, "for more than an hour") != c.warn || c.warn && !strings.Contains(text, "ticket.created") {
			t.Errorf("%v: logged was %q", c.age, text)
		}
	}
	// A store with the outbox in its database appends and deletes atomically.
	told := &logged{}
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "tickets"}, nil),
		server.Options{Store: memcluster.New().Open(), Replicas: replicas.New(replicas.Options{}), Logger: slog.New(slog.NewTextHandler(told, nil))})
	must(t, err)
	defer es.Shutdown(context.Background())
	if _, err := server.Register(es, ticketCreated, server.Hooks[arguments, payload]{}); err != nil || strings.Contains(told.String(), "for more than an hour") {
		t.Errorf("%v, logged was %q", err, told)
	}
}
