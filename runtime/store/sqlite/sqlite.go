// Package sqlite keeps everything that must survive a restart in one SQLite file: event logs,
// webhook subscriptions with their delivery positions and verifications, a client's cursors, its dead
// letters and the webhook bodies that its application has not taken yet.
//
// Start with [Open]. Only one process at a time may have the file open; a lock beside it ensures that. All writes go
// through one goroutine, which commits together what has gathered: nothing is acknowledged, and nothing is visible to a
// reader, before its COMMIT has returned. The driver is modernc.org/sqlite, which needs no C compiler.
//
// Every entry of a log has a checksum: where a byte of it has changed on the disk, reading it is
// [ErrCorrupt], as is an entry that is missing. So has every record of [Store.Engine], whose value is a [store.Damaged]
// then. Encrypted secrets are authenticated. Damage
// elsewhere in the file is found only where SQLite notices it or a value cannot be decoded. Damage within
// the journal that a killed process left undoes the commits from there on: SQLite takes it for a
// write that was torn.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/filelock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/attemptlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// Synchronous says what a COMMIT waits for.
type Synchronous int

const (
	// Full waits until the operating system has written to the disk: a commit survives a power
	// failure. It is the default.
	Full Synchronous = iota
	// Normal leaves the last commits to the operating system: they survive the process, but a
	// power failure may undo them.
	Normal
)

// Options configure [Open]. The zero value is the safe one but for Key.
type Options struct {
	// Key encrypts the secrets of webhook subscriptions and callbacks at rest with AES-GCM: 16, 24 or 32 bytes
	// that the operator keeps elsewhere. Without it secrets lie in the file as they are, protected
	// only by the file's permissions. A file written with a key opens only with that key, and takes no secrets
	// without one; the first Open with a key seals those that lie there.
	Key []byte
	// OldKeys open secrets too and never seal any: Open seals with Key what lies under them, 500 in a step, so
	// that they are needed once.
	OldKeys [][]byte
	// Synchronous says what a COMMIT waits for; default Full.
	Synchronous Synchronous
	// Readers is the number of connections for reading; default 4.
	Readers int
	// Wait is how long Open waits for another process to give the file up, as in a rolling restart;
	// default 10 s, negative: not at all. Then it returns [ErrBusy].
	Wait time.Duration
	// Logger is told of files that others than their owner may read, of subscriptions that cannot be read,
	// and when expired entries or records cannot be deleted; default slog.Default().
	Logger *slog.Logger
}

// A Store is a file opened by [Open]. It implements [store.Store], [store.SubscriptionStore],
// [engine.Attempts], [clientstore.ConsumerStore], [clientstore.ReceivedStore] and [clientstore.CallbackStore].
type Store struct {
	lock    *filelock.Lock
	read    *sql.DB
	write   *sql.DB
	writer  *writer
	sweeper *sweeper
	engine  *storeEngine
	box     sealed.Box
	logger  *slog.Logger

	attempts   attemptlog.Trimmer
	attemptsOf *sql.Stmt // of read

	closing sync.Once

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

// Open opens the file at path, making it when it does not exist, for its owner only (mode 0600); its
// directory must exist. Beside it lies a file of the same name and ".lock", which stays: while a
// Store has the file open, Open of it waits elsewhere, whatever the path by which it is named (see
// [Options.Wait]). Errors match [ErrCorrupt], [ErrFull], [ErrKey], [ErrVersion] or [ErrBusy] where
// they are of that nature.
func Open(ctx context.Context, path string, o Options) (_ *Store, err error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
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
	if path, err = resolve(path); err != nil {
		return nil, err
	}
	if o.Wait == 0 {
		o.Wait = filelock.DefaultWait
	}
	if s.lock, err = filelock.Acquire(ctx, path, o.Wait); err != nil {
		return nil, err
	}
	if err := create(path); err != nil {
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
	if s.attemptsOf, err = s.read.PrepareContext(ctx, attemptsOf); err != nil {
		return nil, errors.Join(classify(err), conn.Close())
	}
	if err := openEngine(ctx, s, conn); err != nil {
		return nil, errors.Join(classify(err), conn.Close())
	}
	s.writer = newWriter(conn)
	s.sweeper = newSweeper(s, o.Logger)
	warnOfModes(o.Logger, path)
	return s, nil
}

// dsn names the file with its pragmas, so that every connection of a pool has them.
func dsn(path string, pragmas ...string) string {
	q := url.Values{}
	q.Add("_pragma", "busy_timeout(5000)")
	q.Add("_pragma", "cell_size_check(1)") // notices some damage earlier
	q.Add("_pragma", "trusted_schema(0)")
	for _, p := range pragmas {
		q.Add("_pragma", p)
	}
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}
	return u.String()
}

// Durable reports true.
func (s *Store) Durable() bool { return true }

// Ping implements [store.Pinger]: the file can be read, and a transaction that writes can begin. A full
// disk is found by the next write only.
func (s *Store) Ping(ctx context.Context) error {
	err := s.each(ctx, func(*sql.Rows) error { return nil }, "PRAGMA user_version")
	if err != nil {
		return err
	}
	return s.writer.do(ctx, func(context.Context, *session) error { return nil }, nil)
}

// Close commits what is under way and closes the file; later calls return [store.ErrClosed]. It is
// idempotent, and each call returns after the file is closed.
func (s *Store) Close() (err error) {
	s.closing.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.engine.changes.Wake()
		s.sweeper.close()
		err = errors.Join(s.writer.close(), s.closeDatabases())
	})
	return err
}

// closeDatabases closes the connections and then gives up the lock.
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

// queries returns the pool for reading.
func (s *Store) queries(ctx context.Context) (*sql.DB, error) {
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

// each calls f for each row of a query.
func (s *Store) each(ctx context.Context, f func(*sql.Rows) error, query string, args ...any) error {
	db, err := s.queries(ctx)
	if err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return classify(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return classify(err)
		}
	}
	return classify(rows.Err())
}

// first scans the first row of a query into dest; false when there is none.
func (s *Store) first(ctx context.Context, query string, args []any, dest ...any) (ok bool, err error) {
	db, err := s.queries(ctx)
	if err != nil {
		return false, err
	}
	err = db.QueryRowContext(ctx, query, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, classify(err)
}

// change makes a write of one statement and returns how many rows it has changed.
func (s *Store) change(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = s.writer.do(ctx, func(ctx context.Context, w *session) error {
		r, err := w.exec(ctx, query, args...)
		if err == nil {
			n, err = r.RowsAffected()
		}
		return err
	}, nil)
	if err != nil {
		return 0, err
	}
	return n, nil
}
