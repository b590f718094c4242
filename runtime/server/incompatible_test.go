package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// EVOL-2, REP-16, SRV-8: the first registration of incompatible schemas is in the log and the audit log, once: with the
// change and the events that are not replayed, alone or beside the older build.
func TestEVOL2IncompatibleRegistrationIsTold(t *testing.T) {
	const told = "schemas are incompatible with the stored ones (payloadSchema/properties/level: field removed or renamed): " +
		"3 older events are not replayed, and webhook subscriptions of the older schemas end once no process serves them"
	cluster := memcluster.New()
	path := t.TempDir() + "/e.db"
	for name, c := range map[string]struct {
		open   func() store.Store
		beside bool
	}{
		"one process": {func() store.Store { return openFile(t, path) }, false},
		"shared":      {func() store.Store { return cluster.Open() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var log lockedLog
			start := func(process, payload string) (*Server, *Emitter[incident]) {
				o := Options{Store: c.open(), Operators: operators.New(), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
				if c.beside {
					o.replica().Name = process
				}
				s := newServer(t, o)
				return s, buildOf(t, s, payload)
			}
			stop := func(s *Server) {
				if err := s.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				if file, ok := s.options.Store.(*sqlite.Store); ok {
					_ = file.Close()
				}
			}
			older, e := start("a", oldPayload)
			for _, id := range []string{"1", "2", "3"} {
				emit(t, e, incident{ID: id})
			}
			if !c.beside {
				stop(older)
			}
			newer, _ := start("b", narrowPayload)
			if got := log.take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=WARN msg="mcp events: e: `+told+`" event=e`) {
				t.Errorf("logged: %s", got)
			}
			audited := func(what string, s *Server) {
				t.Helper()
				found, _, err := s.Admin().Audit(t.Context(), operator.AuditFilter{}, 0, 10)
				if err != nil || len(found) != 1 || found[0].Verb != "register" || found[0].Event != "e" || found[0].Outcome != told || found[0].Actor == "" || c.beside && found[0].Actor != "b" || found[0].At.IsZero() {
					t.Errorf("%s: %+v, %v", what, found, err)
				}
			}
			audited("registered", newer)
			stop(newer)
			again, _ := start("c", narrowPayload)
			if got := log.take(); got != "" {
				t.Errorf("registered again, logged: %s", got)
			}
			audited("registered again", again)
			stop(again)
		})
	}
	t.Run("without parts", func(t *testing.T) { // and with a store that does not compare schemas
		st := durableMemory{memory.New()}
		buildOf(t, newServer(t, Options{Store: st}), oldPayload)
		var log lockedLog
		buildOf(t, newServer(t, Options{Store: st, Logger: slog.New(slog.NewTextHandler(&log, nil))}), narrowPayload)
		if got := log.take(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "(payloadSchema: differs): webhook") {
			t.Errorf("logged: %s", got)
		}
	})
	t.Run("the audit log fails", func(t *testing.T) {
		st := cluster.Open()
		var log lockedLog
		s := newServer(t, Options{Store: st, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		st.Inject(memcluster.Faults{Fail: func(step string) error {
			if strings.Contains(step, "/audit") {
				return errors.New("it is full")
			}
			return nil
		}})
		buildOf(t, s, strings.Replace(narrowPayload, `"tags"`, `"labels"`, 1))
		if got := log.take(); !strings.Contains(got, "recording an incompatible registration of e failed") {
			t.Errorf("logged: %s", got)
		}
	})
}
