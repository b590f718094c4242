//go:build unix

package sqlite_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// cpu returns the CPU time that the process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure reports the CPU time of an operation, and of the same rows written without a store.
func measure(b *testing.B, plain, op func()) {
	began := cpu(b)
	for range b.N {
		plain()
	}
	least := cpu(b) - began
	b.ResetTimer()
	began = cpu(b)
	for range b.N {
		op()
	}
	used := cpu(b) - began
	b.StopTimer()
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(least.Microseconds())/float64(b.N), "plain-cpu-µs/op")
	b.ReportMetric(float64(used)/float64(least), "×plain")
}

// admission returns the writes of a new subscription as the ledger makes them: a specification, a status, an index and two
// stripes of quotas.
func admission() []store.Write {
	id, value := rand.Text(), store.Bytes(strings.Repeat("x", 300))
	return []store.Write{
		{Key: "sub/" + id, Value: store.Bytes(strings.Repeat("x", 600))},
		{Key: "pro/topic/0/" + id, Value: value},
		{Key: "use/" + rand.Text() + "/" + rand.Text() + "/" + id, Value: value},
		{Key: "quota/sub/" + rand.Text() + "/0", Value: value},
		{Key: "quota/sub/all/" + id, Value: value},
	}
}

// bare writes rows by prepared statements, each call in one transaction.
func bare(b *testing.B) func(rows []store.Write) {
	db, err := sql.Open("sqlite", filepath.Join(b.TempDir(), "plain.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE TABLE records (key TEXT NOT NULL PRIMARY KEY, revision INTEGER NOT NULL, call INTEGER NOT NULL, value BLOB,
		once INTEGER NOT NULL, gone INTEGER, sum INTEGER NOT NULL) STRICT`); err != nil {
		b.Fatal(err)
	}
	put, err := db.Prepare("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value")
	if err != nil {
		b.Fatal(err)
	}
	return func(rows []store.Write) {
		tx, err := db.Begin()
		if err != nil {
			b.Fatal(err)
		}
		st := tx.Stmt(put)
		for _, w := range rows {
			if _, err := st.Exec(w.Key, 1, 1, w.Value.Bytes(), 0, nil, 1); err != nil {
				b.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	begin := func(b *testing.B) (put func(writes ...store.Write) []uint64) {
		s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "events.db"), sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		e := s.Engine()
		b.Cleanup(func() { e.Close() })
		if _, err := e.Enter(b.Context()); err != nil {
			b.Fatal(err)
		}
		return func(writes ...store.Write) []uint64 {
			revisions, err := e.Commit(context.Background(), &store.Commit{Call: 1, Writes: writes, Tell: []string{writes[0].Key}})
			if err != nil {
				b.Error(err)
			}
			return revisions
		}
	}
	b.Run("admission", func(b *testing.B) {
		put := begin(b)
		plain := bare(b)
		measure(b, func() { plain(admission()) }, func() { put(admission()...) })
	})
	b.Run("admission/64", func(b *testing.B) { // an operation is 64 concurrent ones
		put := begin(b)
		plain := bare(b)
		measure(b, func() {
			var rows []store.Write
			for range 64 {
				rows = append(rows, admission()...)
			}
			plain(rows)
		}, func() {
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() { put(admission()...) })
			}
			wg.Wait()
		})
	})
	b.Run("progress", func(b *testing.B) { // an operation replaces 190 of 19,000 records
		put := begin(b)
		plain := bare(b)
		batches := make([][]store.Write, 100)
		for i := range batches {
			for range 190 {
				batches[i] = append(batches[i], store.Write{Key: "pro/topic/0/" + rand.Text(), Value: store.Bytes(strings.Repeat("x", 300))})
			}
			plain(batches[i])
			for j, r := range put(batches[i]...) {
				batches[i][j].On = r
			}
		}
		n, m := 0, 0
		measure(b, func() {
			plain(batches[n%len(batches)])
			n++
		}, func() {
			batch := batches[m%len(batches)]
			for j, r := range put(batch...) {
				batch[j].On = r
			}
			m++
		})
	})
}
