package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pgtest"
)

// A database is a PostgreSQL with the author's table that the replicas reach through a relay, each by an address of its own. The
// relay can be slow and can cut connections.
type database struct {
	faults  faults
	cluster *pgtest.Cluster
	lns     []net.Listener
	wg      sync.WaitGroup
	delay   atomic.Int64 // of each answer, in nanoseconds

	mu    sync.Mutex
	lines map[*line]struct{}
	trap  *trap // for the next that is to be withheld
}

// A trap withholds what a replica sends next of a kind, until it is released.
type trap struct {
	replica  int
	texts    []string
	caught   chan struct{}
	released chan struct{}
}

// A line is one connection through the relay.
type line struct {
	replica        int
	client, server net.Conn
	cutting        atomic.Bool  // after what the client sends next
	silent         atomic.Int64 // until then nothing passes, in nanoseconds since 1970
}

// hush waits while the line is half-open.
func (l *line) hush() {
	for until := l.silent.Load(); until > time.Now().UnixNano(); until = l.silent.Load() {
		time.Sleep(20 * time.Millisecond)
	}
}

func (l *line) close() {
	l.client.Close()
	l.server.Close()
}

func start(ctx context.Context, f faults) (*database, error) {
	c, err := pgtest.Start(pgtest.Durable)
	if err != nil {
		return nil, err
	}
	d := &database{faults: f, cluster: c, lines: map[*line]struct{}{}}
	if err := d.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE TABLE campaign_tickets (id text PRIMARY KEY)")
		return err
	}); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	for i := range campaign.Replicas {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, d.Stop())
		}
		d.lns = append(d.lns, ln)
		d.wg.Go(func() { d.accept(ln, i) })
	}
	return d, nil
}

// Stop implements [campaign.Database].
func (d *database) Stop() error {
	for _, ln := range d.lns {
		ln.Close()
	}
	d.mu.Lock()
	for l := range d.lines {
		l.close()
	}
	d.mu.Unlock()
	d.wg.Wait()
	return d.cluster.Stop()
}

// URL is a replica's connection string, through the relay.
func (d *database) URL(replica int) string {
	u, err := url.Parse(d.cluster.URL())
	if err != nil {
		panic(err) // it is ours
	}
	u.Host = d.lns[replica].Addr().String()
	return u.String()
}

func (d *database) accept(ln net.Listener, replica int) {
	for {
		client, err := ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(d.cluster.Port())))
		if err != nil {
			client.Close()
			continue
		}
		l := &line{replica: replica, client: client, server: server}
		d.mu.Lock()
		d.lines[l] = struct{}{}
		d.mu.Unlock()
		d.wg.Go(func() { d.ask(l) })
		d.wg.Go(func() {
			d.answer(l)
			d.mu.Lock()
			delete(d.lines, l)
			d.mu.Unlock()
		})
	}
}

// ask passes on what the client sends. A line that is to be cut takes one thing more: the server does
// what it says, and nobody hears of it.
func (d *database) ask(l *line) {
	defer l.close()
	b := make([]byte, 32<<10)
	for {
		n, err := l.client.Read(b)
		if n > 0 {
			d.withhold(l, b[:n])
			l.hush()
			if _, err := l.server.Write(b[:n]); err != nil {
				return
			}
			if l.cutting.Load() {
				l.client.Close()
				time.Sleep(50 * time.Millisecond) // the server reads it all before it learns of the end
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// answer passes on what the server says, each thing after the delay.
func (d *database) answer(l *line) {
	defer l.close()
	type chunk struct {
		at   time.Time
		text []byte
	}
	chunks := make(chan chunk, 64)
	d.wg.Go(func() {
		defer close(chunks)
		for {
			b := make([]byte, 16<<10)
			n, err := l.server.Read(b)
			if n > 0 {
				chunks <- chunk{time.Now(), b[:n]}
			}
			if err != nil {
				return
			}
		}
	})
	for c := range chunks {
		if wait := time.Duration(d.delay.Load()) - time.Since(c.at); wait > 0 {
			time.Sleep(wait)
		}
		l.hush()
		if _, err := l.client.Write(c.text); err != nil {
			break
		}
	}
	l.close()
	for range chunks { // until its reader has ended
	}
}

// withhold waits where the text is what the trap is set for.
func (d *database) withhold(l *line, text []byte) {
	d.mu.Lock()
	t := d.trap
	if t == nil || t.replica != l.replica || slices.ContainsFunc(t.texts, func(s string) bool { return !bytes.Contains(text, []byte(s)) }) {
		d.mu.Unlock()
		return
	}
	d.trap = nil
	d.mu.Unlock()
	close(t.caught)
	<-t.released
}

// set sets a trap for what the replica sends next with all those texts. The caller calls release.
func (d *database) set(replica int, texts ...string) (t *trap, release func()) {
	t = &trap{replica: replica, texts: texts, caught: make(chan struct{}), released: make(chan struct{})}
	d.mu.Lock()
	d.trap = t
	d.mu.Unlock()
	return t, sync.OnceFunc(func() {
		d.mu.Lock()
		if d.trap == t {
			d.trap = nil
		}
		d.mu.Unlock()
		close(t.released)
	})
}

// hush makes some connection half-open: nothing passes, and nobody is told, until it ends. It returns whose.
func (d *database) hush(during time.Duration) (replica int) {
	l := d.anyLine()
	if l == nil {
		return -1
	}
	l.silent.Store(time.Now().Add(during).UnixNano())
	d.wg.Go(func() {
		time.Sleep(during)
		l.close()
	})
	return l.replica
}

// cut lets some connection end after what its client sends next, and returns whose; -1 for nobody's.
func (d *database) cut() (replica int) {
	l := d.anyLine()
	if l == nil {
		return -1
	}
	l.cutting.Store(true)
	return l.replica
}

func (d *database) anyLine() *line {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lines) == 0 {
		return nil
	}
	all := slices.Collect(maps.Keys(d.lines))
	return all[rand.IntN(len(all))]
}

// lock locks a table of the store for everybody and returns when it has been locked, and until when.
func (d *database) lock(ctx context.Context, table string, during time.Duration) (from, to time.Time, err error) {
	err = d.with(ctx, func(c *pgx.Conn) error {
		tx, err := c.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(context.WithoutCancel(ctx))
		if _, err := tx.Exec(ctx, "LOCK TABLE mcpe."+table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		from = time.Now()
		time.Sleep(during)
		to = time.Now()
		return nil
	})
	return from, to, err
}

// owned waits until every shard has an owner with a lease, or the time is over.
func (d *database) owned(ctx context.Context, limit time.Duration) error {
	for end := time.Now().Add(limit); ; campaign.Sleep(ctx, 100*time.Millisecond) {
		free := 1
		err := d.with(ctx, func(c *pgx.Conn) error {
			return c.QueryRow(ctx, `SELECT count(*) FROM mcpe.shards s
				WHERE NOT EXISTS (SELECT 1 FROM mcpe.leases l WHERE l.fence = s.fence AND l.expires > clock_timestamp())`).Scan(&free)
		})
		if err == nil && free == 0 || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
	}
}

// crowd takes all connections that there are for a while.
func (d *database) crowd(ctx context.Context, during time.Duration) error {
	var taken []*pgx.Conn
	most := 0
	if err := d.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT current_setting('max_connections')::int").Scan(&most)
	}); err != nil {
		return err
	}
	defer func() {
		for _, c := range taken {
			c.Close(context.WithoutCancel(ctx))
		}
	}()
	for range most + 1 {
		c, err := pgx.Connect(ctx, d.cluster.URL())
		if err != nil {
			var refused *pgconn.PgError
			if errors.As(err, &refused) && refused.Code == "53300" {
				campaign.Sleep(ctx, during)
				return nil
			}
			return err
		}
		taken = append(taken, c)
	}
	return errors.New("the database takes any number of connections")
}

// terminate ends some backend, as an operator or a failover does.
func (d *database) terminate(ctx context.Context) error {
	return d.with(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) AS one`)
		return err
	})
}

// restart stops the database as a power cut would and starts it again.
func (d *database) restart(away time.Duration) error {
	if err := d.cluster.Crash(); err != nil {
		return err
	}
	time.Sleep(away)
	return d.cluster.Start()
}

// with runs f on a connection that does not lead through the relay.
func (d *database) with(ctx context.Context, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, d.cluster.URL())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}

// Owner implements [campaign.Database].
func (d *database) Owner(ctx context.Context, topic string) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // the table may be locked
	defer cancel()
	err = d.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT coalesce((SELECT l.name FROM mcpe.shards s JOIN mcpe.leases l ON l.fence = s.fence
			WHERE s.topic = $1 AND l.expires > clock_timestamp() ORDER BY s.number LIMIT 1), '')`, topic).Scan(&name)
	})
	return name, err
}

// Waiting implements [campaign.Database].
func (d *database) Waiting(ctx context.Context) (n int, err error) {
	err = d.with(ctx, func(c *pgx.Conn) error { return c.QueryRow(ctx, "SELECT count(*) FROM mcpe.outbox").Scan(&n) })
	return n, err
}

// Subscriptions implements [campaign.Database].
func (d *database) Subscriptions(ctx context.Context, principal string) (n int, err error) {
	err = d.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT count(*) FROM mcpe.subscriptions WHERE principal = $1", []byte(principal)).Scan(&n)
	})
	return n, err
}

// Log implements [campaign.Database]: its order is what every consumer has to see (REP-1).
func (d *database) Log(ctx context.Context) (ids []string, err error) {
	err = d.with(ctx, func(conn *pgx.Conn) error {
		var waiting int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM mcpe.outbox").Scan(&waiting); err != nil || waiting > 0 {
			return errors.Join(err, fmt.Errorf("%d occurrences wait in the outbox", waiting))
		}
		rows, err := conn.Query(ctx, `SELECT e.position, convert_from(e.data, 'UTF8')::json ->> 'ticketId'
			FROM mcpe.entries e JOIN mcpe.logs l ON l.id = e.log WHERE l.name = $1 ORDER BY e.position`, tickets.TicketCreatedEventName)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var position int64
			var id string
			if err := rows.Scan(&position, &id); err != nil {
				return err
			}
			if ids = append(ids, id); position != int64(len(ids)) {
				return fmt.Errorf("the log has position %d where %d comes next", position, len(ids))
			}
		}
		return rows.Err()
	})
	return ids, err
}

// Story implements [campaign.Database].
func (d *database) Story(ctx context.Context, path string) string {
	var b strings.Builder
	for _, q := range []string{
		"SELECT to_jsonb(s) - 'secrets' FROM mcpe.subscriptions s WHERE position(convert_to($1, 'UTF8') in url::bytea) > 0",
		"SELECT to_jsonb(s) FROM mcpe.shards s WHERE $1 <> ''",
		"SELECT to_jsonb(s) FROM mcpe.leases s WHERE $1 <> ''",
		"SELECT to_jsonb(s) FROM mcpe.marks s WHERE $1 <> ''",
		"SELECT to_jsonb(s) FROM mcpe.actions s WHERE $1 <> '' ORDER BY 1 DESC LIMIT 40",
	} {
		fmt.Fprintln(&b, "  "+q)
		if err := d.with(ctx, func(conn *pgx.Conn) error {
			rows, err := conn.Query(ctx, q, path)
			if err != nil {
				return err
			}
			all, err := pgx.CollectRows(rows, pgx.RowTo[string])
			for _, row := range all {
				fmt.Fprintln(&b, "    "+row)
			}
			return err
		}); err != nil {
			fmt.Fprintln(&b, "    ", err)
		}
	}
	return b.String()
}

// Note implements [campaign.Database].
func (d *database) Note(context.Context) string { return "" }

// Backup implements [campaign.Restorer].
func (d *database) Backup(context.Context) error { return d.cluster.Dump() }

// Restore implements [campaign.Restorer], as docs/postgres.md has it: webhook subscriptions are told because new epochs
// begin.
func (d *database) Restore(ctx context.Context) error {
	if err := d.cluster.Restore(); err != nil {
		return err
	}
	return d.with(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT mcpe.begin_epochs()")
		return err
	})
}
