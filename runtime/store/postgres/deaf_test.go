package postgres_test

import (
	"bytes"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// A journal is a log to which several goroutines write.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) count(words string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), words)
}

// REP-3: a LISTEN that receives nothing, as through a pooler in transaction mode, is one line in the log that says what
// to do. Here it listens in another database. A store that hears itself says nothing.
func TestListenHearsNothing(t *testing.T) {
	const words = "LISTEN receives no notifications"
	dsn := pgtest.URL(t)
	var quiet, deaf journal
	open := func(j *journal, listen string) {
		t.Helper()
		s, err := postgres.Open(t.Context(), dsn, postgres.Options{Schema: pgtest.Schema(t), Listen: listen, Logger: slog.New(slog.NewTextHandler(j, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
	}
	open(&quiet, "")
	other := pgtest.Schema(t) // an unused name
	pgtest.Exec(t, dsn, "CREATE DATABASE "+other)
	t.Cleanup(func() { pgtest.Exec(t, dsn, "DROP DATABASE "+other+" WITH (FORCE)") })
	open(&deaf, as(t, dsn, func(u *url.URL, _ url.Values) { u.Path = "/" + other }))
	for end := time.Now().Add(30 * time.Second); deaf.count(words) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the log says nothing of a LISTEN that hears nothing")
		}
	}
	if deaf.count(words) != 1 || deaf.count("Options.Listen") != 1 {
		t.Errorf("the log says\n%s", deaf.text.String())
	}
	if n := quiet.count(words); n != 0 {
		t.Errorf("a store that hears itself warns %d times", n)
	}
}
