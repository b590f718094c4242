package postgres_test

import (
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/testflag"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func TestMain(m *testing.M) {
	testflag.Parallel(4) // they wait for the database
	code := pgtest.Main(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

func quiet(o postgres.Options) postgres.Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return o
}

// open opens a store in a schema of the database that the tests share.
func open(t *testing.T, schema string, o postgres.Options) *postgres.Store {
	t.Helper()
	o.Schema = schema
	s, err := postgres.Open(t.Context(), pgtest.URL(t), quiet(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func freshEntries(t *testing.T) *postgres.Store { return open(t, pgtest.Schema(t), postgres.Options{}) }

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.TestStoreOfClock(t, func(t *testing.T) store.Store { return freshEntries(t) }, func(t *testing.T, s store.Store, by time.Duration) {
		if err := s.(*postgres.Store).Age(t.Context(), by); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCursors(t *testing.T) {
	storetest.TestCursors(t, func(t *testing.T) clientstore.CursorStore { return freshEntries(t) })
}

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	storetest.TestSubscriptions(t, func(t *testing.T) store.SubscriptionStore { return freshEntries(t) })
}

func TestLister(t *testing.T) {
	enginetest.TestLister(t, func(t *testing.T) enginetest.Lister { return freshEntries(t) })
}

func TestReceived(t *testing.T) {
	storetest.TestReceived(t, func(t *testing.T) (clientstore.ReceivedStore, clientstore.CursorStore) {
		s := freshEntries(t)
		return s, s
	})
}

func TestCallbacks(t *testing.T) {
	storetest.TestCallbacks(t, func(t *testing.T) clientstore.CallbackStore { return freshEntries(t) })
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	enginetest.TestAttempts(t, func(t *testing.T) enginetest.Attempts { return freshEntries(t) })
}
