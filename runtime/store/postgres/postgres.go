// Package postgres stores events in PostgreSQL 13 or later, for any number of concurrent processes. A [Store] is
// an [engine.Shared]. Start with [Open].
//
// Each batch of appends to a log assigns positions by updating one row, so positions are consecutive and become visible
// in order. A database sequence would guarantee neither. Concurrent appends share a statement, which also reads the
// entries of other replicas. Replicas use NOTIFY to notify each other of appends, in a separate statement after the
// commit. They also poll for appends every [Options.Poll].
//
// Statements are described once per connection and sent unnamed, in one round trip. They do not depend on session
// state, so connections can use a pooler in transaction mode.
package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/attemptlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/outbox"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// DefaultSchema is the schema that a store uses if Options.Schema is empty.
const DefaultSchema = "mcpe"

// Options configure [Open]. The zero value is safe for production, but Key should be set.
type Options struct {
	// Schema is the name of the store's PostgreSQL schema, at most 48 bytes; the default is [DefaultSchema]. Open
	// creates the schema if it does not exist. Clusters of replicas that share a database need different schemas.
	Schema string
	// Listen is a connection string for LISTEN. It must connect directly to the server. If it is empty and Pooled is
	// not set, the store's connection string is used.
	Listen string
	// Pooled specifies that the store's connection string connects to a pooler, where LISTEN has no effect. If Listen
	// is also empty, the store finds other replicas' appends only by polling.
	Pooled bool
	// Poll is how often the store polls for appends of other processes; the default is 1 s. Polling finds appends whose
	// notifications were lost.
	Poll time.Duration
	// Connections is the maximum number of connections in the pool; the default is 8. LISTEN uses an additional
	// connection.
	Connections int
	// Timeout limits the duration of a statement or transaction, including the wait for a connection. The default is 30
	// s.
	Timeout time.Duration
	// Key encrypts the secrets of webhook subscriptions and callbacks at rest with AES-GCM. It must have 16, 24 or 32
	// bytes, and the operator must store it elsewhere. Every process needs the same key. Without a key, secrets are
	// stored in plain text. Once a store has been opened with a key, it can be opened only with that key and rejects
	// unencrypted secrets. To introduce a key, see docs/one-process.md.
	Key []byte
	// OldKeys are used only to decrypt secrets. The store re-encrypts these secrets with Key in the background, and
	// logs a message when none remain.
	OldKeys [][]byte
	// Relaxed accepts the role's synchronous_commit setting. By default, the store overrides off and local in every
	// writing transaction (REP-5).
	Relaxed bool
	// SynchronousStandby specifies that the server fails over only to a synchronous standby, which has every commit.
	// Epochs then continue after a failover. Otherwise, a change of PostgreSQL's timeline begins new epochs, and
	// earlier cursors continue with a gap (REP-19).
	SynchronousStandby bool
	// Logger is used for messages to operators; the default is [slog.Default].
	Logger *slog.Logger
}

// A Store stores events and state in a PostgreSQL database. It
// implements [engine.Shared], [engine.Outbox], [clientstore.CursorStore], [clientstore.ReceivedStore]
// and [clientstore.CallbackStore].
type Store struct {
	attempts attemptlog.Trimmer
	name     string // of the schema
	schema   string // quoted
	options  Options
	box      sealed.Box
	pool     *pgxpool.Pool
	durable  bool   // every commit waits for the disk
	system   string // identity of the server, when last read
	timeline string
	channel  string
	tail     *tail

	questions atomic.Int64 // queries for heads
	committer *committer
	apart     chan struct{} // capacity: the maximum number of concurrent transactions for single logs
	outbox    outbox.Table

	ctx  context.Context // ends with the store
	stop context.CancelFunc
	wg   sync.WaitGroup // of every goroutine

	mu     sync.Mutex
	now    incarnation
	logs   map[string]*Log
	closed bool
}

var (
	_ engine.Shared             = (*Store)(nil)
	_ store.Pinger              = (*Store)(nil)
	_ engine.Outbox             = (*Store)(nil)
	_ clientstore.CursorStore   = (*Store)(nil)
	_ clientstore.ReceivedStore = (*Store)(nil)
	_ clientstore.CallbackStore = (*Store)(nil)
	_ engine.Log                = (*Log)(nil)
)

// Open connects to a database, creates the schema if it does not exist, and starts tailing the logs. The connection
// string is a URL or consists of key=value pairs, as for libpq. Errors match [ErrConfig], [ErrUnreachable],
// [ErrServer], [ErrReadOnly], [ErrRights], [ErrVersion], [ErrForeign] or [ErrKey] if applicable. They never contain the
// password.
func Open(ctx context.Context, connString string, o Options) (_ *Store, err error) {
	s := &Store{options: o, logs: map[string]*Log{}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open store: %w", classify(err))
			if s.pool != nil {
				s.pool.Close()
			}
		}
	}()
	if err := s.configure(); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(connString)
	if err != nil {
		return nil, err
	}
	listen, err := s.listenConfig(connString)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(s.options.Connections)
	// The client caches descriptions. The server stores no session state between transactions.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	config.ConnConfig.Tracer = tracer
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, 10*time.Second)
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{s.checkServer, s.prepare, s.checkTables, s.checkKey, s.joinGeneration} {
		limited, cancel := context.WithTimeout(ctx, s.options.Timeout)
		err := step(limited)
		cancel()
		if err != nil {
			return nil, err
		}
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.tail = newTail(s)
	s.apart = make(chan struct{}, max(1, s.options.Connections/2))
	s.committer = newCommitter(s)
	s.wg.Go(s.tail.run)
	s.wg.Go(s.tail.notify)
	if len(o.OldKeys) > 0 {
		s.wg.Go(s.resealAll)
	}
	if listen != nil {
		s.wg.Go(func() { s.tail.listen(listen) })
	}
	return s, nil
}

// tracer counts statements in tests. It is nil otherwise.
var tracer pgx.QueryTracer

// maxSchema is the maximum length of a schema name. It leaves room for suffixes that PostgreSQL adds to names.
const maxSchema = 48

// configure checks the options and sets their defaults.
func (s *Store) configure() (err error) {
	o := &s.options
	o.Schema = cmp.Or(o.Schema, DefaultSchema)
	if len(o.Schema) > maxSchema || strings.ContainsAny(o.Schema, "\x00@") || strings.HasPrefix(o.Schema, "pg_") {
		return fmt.Errorf("%w: Schema must have at most %d bytes (it has %d), no NUL and no @, and must not begin with pg_", ErrConfig, maxSchema, len(o.Schema))
	}
	for name, v := range map[string]int64{"Poll": int64(o.Poll), "Connections": int64(o.Connections), "Timeout": int64(o.Timeout)} {
		if v < 0 {
			return fmt.Errorf("%w: %s is negative", ErrConfig, name)
		}
	}
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.Connections = cmp.Or(o.Connections, 8)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s.name, s.schema = o.Schema, pgx.Identifier{o.Schema}.Sanitize()
	s.outbox.Schema, s.outbox.Logger = s.schema, o.Logger
	sum := sha256.Sum256([]byte(o.Schema))
	s.channel = "mcpe_" + hex.EncodeToString(sum[:16])
	s.box, err = sealed.New(o.Key, o.OldKeys...)
	return err
}

// listenConfig returns the configuration of the connection for LISTEN. It returns nil if LISTEN is not possible.
func (s *Store) listenConfig(connString string) (*pgx.ConnConfig, error) {
	text := s.options.Listen
	switch {
	case text == "" && s.options.Pooled:
		return nil, nil
	case text == "":
		text = connString
	}
	config, err := pgxpool.ParseConfig(text) // it also accepts the parameters of a pool
	if err != nil {
		return nil, err
	}
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, 10*time.Second)
	return config.ConnConfig, nil
}

// Durable implements [store.Store].
func (s *Store) Durable() bool { return true }

// Ping implements [store.Pinger]. It checks that the server can read the store's tables and accepts writes.
func (s *Store) Ping(ctx context.Context) error {
	var recovering bool
	var readOnly string
	err := s.query(ctx, func(r pgx.CollectableRow) error { return r.Scan(&recovering, &readOnly) },
		`SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only') FROM @.store`)
	switch {
	case err != nil:
		return err
	case recovering:
		return fmt.Errorf("%w: it is a standby", ErrReadOnly)
	case readOnly == "on":
		return fmt.Errorf("%w: default_transaction_read_only is on", ErrReadOnly)
	}
	return nil
}

// Close waits until pending appends are committed, and then closes the store. Later calls return [store.ErrClosed]. It
// can be called more than once.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.wg.Wait()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.committer.close()
	s.stop()
	s.wg.Wait()
	s.pool.Close()
	return nil
}

// checkOpen returns an error if ctx is done or the store is closed.
func (s *Store) checkOpen(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	return nil
}

// currentIncarnation returns the store's current incarnation and timeline.
func (s *Store) currentIncarnation() (now incarnation, timeline string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.timeline
}

// queueBegin queues the statement that begins every writing transaction.
func (s *Store) queueBegin(b *pgx.Batch) {
	now, timeline := s.currentIncarnation()
	s.queueBeginIn(b, now, timeline, "")
}

// queueBeginIn is like queueBegin, for an incarnation. The statement also sets the lock_timeout, unless lockWait is "".
func (s *Store) queueBeginIn(b *pgx.Batch, now incarnation, timeline, lockWait string) {
	b.Queue(s.qualify(`SELECT @.begin_write($1, $2, $3, $4)`), now.generation, timeline, s.durable, lockWait)
}

// queueFenceCheck queues the statement that checks that h is current. For a process that does not use shards, h is nil.
func (s *Store) queueFenceCheck(b *pgx.Batch, h *engine.ShardFence) {
	if h != nil {
		b.Queue(s.qualify(`SELECT @.hold($1, $2, $3)`), h.Shard.Topic, int32(h.Shard.Number), int64(h.Fence))
	}
}

// maxRetries is the maximum number of times that a transaction is retried after a conflict.
const maxRetries = 5

// withTimeout returns a context with the timeout of an operation.
func (s *Store) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.options.Timeout)
}

// callWithRetry calls f and retries after transient errors.
func (s *Store) callWithRetry(ctx context.Context, f func(context.Context) error) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	limited, cancel := s.withTimeout(ctx)
	defer cancel()
	entered := false
	for try := 0; ; try++ {
		err := f(limited)
		if err == nil {
			return nil
		}
		if isOldGeneration(err) && !entered {
			// The server has changed, but the generation may be the same. If the generation has changed too, a retried
			// write to an older log is rejected.
			if entered = true; s.joinGeneration(limited) == nil {
				continue
			}
		}
		if try < maxRetries && limited.Err() == nil && (isConflict(err) || isUnsent(err)) {
			select {
			case <-time.After(time.Duration(try+1) * 20 * time.Millisecond):
				continue
			case <-limited.Done():
			}
		}
		if closed := s.checkOpen(context.Background()); closed != nil && !mayBeCommitted(err) {
			return closed
		}
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v: %w", s.options.Timeout, err)
		}
		return err
	}
}

// write executes statements in one transaction and one round trip. The statements queued by f read their own results.
// The function f can be called more than once.
func (s *Store) write(ctx context.Context, f func(b *pgx.Batch)) error {
	err := s.callWithRetry(ctx, func(ctx context.Context) error {
		b := &pgx.Batch{}
		s.queueBegin(b)
		f(b)
		return s.pool.SendBatch(ctx, b).Close()
	})
	return wrapUncertain(err)
}

// execChange executes a statement that modifies rows, and reports whether it modified any rows.
func (s *Store) execChange(ctx context.Context, sql string, args ...any) (changed bool, err error) {
	err = s.write(ctx, func(b *pgx.Batch) {
		b.Queue(s.qualify("WITH c AS ("+sql+" RETURNING 1) SELECT count(*) > 0 FROM c"), args...).QueryRow(func(row pgx.Row) error { return row.Scan(&changed) })
	})
	return changed && err == nil, err
}

// transact calls f within a writing transaction, which checks that h is current unless h is nil. The function f can be
// called more than once.
func (s *Store) transact(ctx context.Context, h *engine.ShardFence, f func(ctx context.Context, tx pgx.Tx) error) error {
	err := s.callWithRetry(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			s.queueBegin(b)
			s.queueFenceCheck(b, h)
			if err := tx.SendBatch(ctx, b).Close(); err != nil {
				return err
			}
			return f(ctx, tx)
		})
	})
	return wrapUncertain(err)
}

// query executes a read-only statement and calls handle for every row.
func (s *Store) query(ctx context.Context, handle func(pgx.CollectableRow) error, sql string, args ...any) error {
	return classify(s.callWithRetry(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, s.qualify(sql), args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := handle(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}))
}

// queryRow scans the only row of a query into dest. It returns false if the query returns nothing.
func (s *Store) queryRow(ctx context.Context, sql string, args []any, dest ...any) (ok bool, err error) {
	err = s.query(ctx, func(r pgx.CollectableRow) error {
		ok = true
		return r.Scan(dest...)
	}, sql, args...)
	return ok && err == nil, err
}

// collect executes a query and calls row to decode each row. A retry discards the rows of the failed attempt. If the
// query returns nothing, the result is nil.
func collect[T any](ctx context.Context, s *Store, row pgx.RowToFunc[T], sql string, args ...any) (all []T, err error) {
	err = s.callWithRetry(ctx, func(ctx context.Context) error {
		rows, _ := s.pool.Query(ctx, s.qualify(sql), args...) // AppendRows returns the error of rows
		all, err = pgx.AppendRows([]T(nil), rows, row)
		return err
	})
	return all, classify(err)
}
