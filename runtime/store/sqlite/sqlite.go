// Package sqlite stores all state that must survive a restart in one SQLite file. For servers, this includes event logs
// and webhook subscriptions with their delivery positions and verifications. For clients, it includes cursors, dead
// letters and unprocessed webhook bodies.
//
// Start with [Open]. Only one process at a time can have the file open, which a lock file ensures. One goroutine
// performs all writes and commits concurrent writes together. A write is neither acknowledged nor visible to readers
// before its COMMIT has returned. The driver is modernc.org/sqlite, which does not need a C compiler.
//
// Every entry of a log has a checksum. If an entry has changed on disk or is missing, reading it returns a
// [store.DamagedError] that matches [ErrCorrupt]. The entries before and after it can still be read. Encrypted secrets
// are authenticated. Other damage to the file is detected only if SQLite reports it or a value cannot be decoded.
// SQLite treats damage in the journal of a killed process as a torn write and discards all commits after it.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/filelock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/attemptlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// Synchronous specifies when a COMMIT returns.
type Synchronous int

const (
	// Full waits until the data is on disk, so a commit survives a power failure. It is the default.
	Full Synchronous = iota
	// Normal lets the operating system write the latest commits to disk later. They survive a process crash, but a
	// power failure can undo them.
	Normal
)

// Options configure [Open]. The zero value is safe for production, but Key should be set.
type Options struct {
	// Key encrypts the secrets of webhook subscriptions and callbacks at rest with AES-GCM. It must have 16, 24 or 32
	// bytes, and the operator must store it elsewhere. Without a key, secrets are stored in plain text, protected only
	// by the file's permissions. The first Open with a key encrypts existing secrets. From then on, the file can be
	// opened only with that key and rejects unencrypted secrets.
	Key []byte
	// OldKeys are used only to decrypt secrets. Open re-encrypts these secrets with Key, in transactions of 500, so old
	// keys are needed only once.
	OldKeys [][]byte
	// Synchronous specifies when a COMMIT returns; the default is Full.
	Synchronous Synchronous
	// Readers is the maximum number of read connections; the default is 4.
	Readers int
	// Wait is how long Open waits for another process to close the file, as in a rolling restart. Open then
	// returns [ErrBusy]. The default is 10 s. If Wait is negative, Open does not wait.
	Wait time.Duration
	// Logger logs unsafe file modes, unreadable subscriptions, and expired entries that cannot be deleted. The default
	// is [slog.Default].
	Logger *slog.Logger
}

// A Store stores events and state in a SQLite file. It
// implements
// [store.Store], [store.SubscriptionStore], [engine.Attempts], [clientstore.ConsumerStore], [clientstore.ReceivedStore]
// and [clientstore.CallbackStore].
type Store struct {
	lock    *filelock.Lock
	read    *sql.DB
	write   *sql.DB
	writer  *writer
	sweeper *sweeper
	box     sealed.Box
	logger  *slog.Logger

	attempts   attemptlog.Trimmer
	attemptsOf *sql.Stmt // uses read

	mu     sync.Mutex
	logs   map[string]*Log
	closed bool
}

var (
	_ store.Store               = (*Store)(nil)
	_ store.Pinger              = (*Store)(nil)
	_ store.SubscriptionStore   = (*Store)(nil)
	_ clientstore.ConsumerStore = (*Store)(nil)
	_ clientstore.ReceivedStore = (*Store)(nil)
	_ clientstore.CallbackStore = (*Store)(nil)
)

// Open opens the file at path. If the file does not exist, Open creates it with mode 0600. The directory must exist.
// Open also creates a lock file with the suffix ".lock", which is never removed. While a Store has the file open, other
// Open calls for the same file wait (see [Options.Wait]), even if they use a different path. Errors match [ErrCorrupt],
// [ErrFull], [ErrKey], [ErrVersion] or [ErrBusy] if applicable.
func Open(ctx context.Context, path string, o Options) (_ *Store, err error) {
	o.Logger, o.Wait = cmp.Or(o.Logger, slog.Default()), cmp.Or(o.Wait, filelock.DefaultWait)
	s := &Store{logs: map[string]*Log{}, logger: o.Logger}
	named := path
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open store %s: %w", named, classify(err)), s.closeDatabases())
		}
	}()
	if s.box, err = sealed.New(o.Key, o.OldKeys...); err != nil {
		return nil, err
	}
	if path, err = resolvePath(path); err != nil {
		return nil, err
	}
	_, unlocked := os.Stat(path + filelock.Suffix)
	if s.lock, err = filelock.Acquire(ctx, path, o.Wait); err != nil {
		return nil, err
	}
	if err := createFile(path, unlocked == nil); err != nil {
		return nil, err
	}
	synchronous := "FULL"
	if o.Synchronous == Normal {
		synchronous = "NORMAL"
	}
	if s.write, err = sql.Open("sqlite", dsn(path, "journal_mode(WAL)", "synchronous("+synchronous+")")); err != nil {
		return nil, err
	}
	s.write.SetMaxOpenConns(1)
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := prepare(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := s.checkKey(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", busyStep)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if s.read, err = sql.Open("sqlite", dsn(path, "query_only(1)")); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	s.read.SetMaxOpenConns(o.Readers)
	s.read.SetMaxIdleConns(o.Readers)
	if s.attemptsOf, err = s.read.PrepareContext(ctx, attemptsSQL); err != nil {
		return nil, errors.Join(classify(err), conn.Close())
	}
	s.writer = newWriter(conn)
	s.sweeper = newSweeper(s, o.Logger)
	warnOfModes(o.Logger, path)
	return s, nil
}

// dsn returns the data source name of the file. It includes the pragmas, so they apply to every connection of a pool.
func dsn(path string, pragmas ...string) string {
	q := url.Values{}
	q.Add("_pragma", "busy_timeout(5000)")
	q.Add("_pragma", "cell_size_check(1)") // detects some damage earlier
	q.Add("_pragma", "trusted_schema(0)")
	for _, p := range pragmas {
		q.Add("_pragma", p)
	}
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}
	return u.String()
}

// Durable implements [store.Store].
func (s *Store) Durable() bool { return true }

// Ping implements [store.Pinger]. It checks that the file can be read and that a write transaction can begin. It does
// not detect a full disk.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.queryRow(ctx, "PRAGMA user_version", nil, new(int)); err != nil {
		return err
	}
	return s.writer.submit(ctx, func(context.Context, *session) error { return nil }, nil)
}

// Close commits pending writes and closes the file. Later calls return [store.ErrClosed]. It can be called more than
// once.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.sweeper.close()
	return errors.Join(s.writer.close(), s.closeDatabases())
}

// closeDatabases closes the connections and then releases the file lock.
func (s *Store) closeDatabases() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Release())
	}
	return errors.Join(errs...)
}

// readPool returns the pool of read connections.
func (s *Store) readPool(ctx context.Context) (*sql.DB, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	return s.read, nil
}

// A scanner is a row of a query.
type scanner interface{ Scan(...any) error }

// collect executes a query and calls scan to decode each row.
func collect[T any](ctx context.Context, s *Store, scan func(scanner) (T, error), query string, args ...any) (all []T, err error) {
	db, err := s.readPool(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, classify(err)
		}
		all = append(all, one)
	}
	return all, classify(rows.Err())
}

// queryRow scans the first row of a query into dest. It returns false if the query returns nothing.
func (s *Store) queryRow(ctx context.Context, query string, args []any, dest ...any) (ok bool, err error) {
	db, err := s.readPool(ctx)
	if err != nil {
		return false, err
	}
	err = db.QueryRowContext(ctx, query, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, classify(err)
}

// execChange executes a statement that modifies rows, and returns the number of rows that it modified.
func (s *Store) execChange(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = s.writer.submit(ctx, func(ctx context.Context, w *session) (err error) {
		n, err = w.exec(ctx, query, args...)
		return err
	}, nil)
	if err != nil {
		return 0, err
	}
	return n, nil
}
