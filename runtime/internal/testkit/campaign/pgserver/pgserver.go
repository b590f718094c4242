// Package pgserver provides a PostgreSQL server with faults for campaigns. The server can crash, become slow, lock
// tables and refuse connections. Connections of replicas can be cut or silenced, and messages can be withheld. The
// package has no compatibility guarantee.
package pgserver

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
)

// A Server is a PostgreSQL server that replicas access through a relay, each at a separate address. The relay can delay
// responses, cut connections and withhold messages.
type Server struct {
	Cluster *pgtest.Cluster
	lns     []net.Listener
	wg      sync.WaitGroup
	delay   atomic.Int64 // of each answer, in nanoseconds

	mu    sync.Mutex
	lines map[*line]struct{}
	trap  *trap // matches the next message to withhold
}

// Slow delays each answer.
func (d *Server) Slow(by time.Duration) { d.delay.Store(int64(by)) }

// A trap withholds a replica's next message that contains given texts until the trap is released.
type trap struct {
	replica  int
	texts    []string
	caught   chan struct{}
	released chan struct{}
}

// A line is a connection through the relay.
type line struct {
	replica        int
	client, server net.Conn
	cutting        atomic.Bool  // after the client's next message
	silent         atomic.Int64 // nothing is forwarded until this time, in Unix nanoseconds
}

// waitWhileSilent waits while the line is half-open.
func (l *line) waitWhileSilent() {
	for until := l.silent.Load(); until > time.Now().UnixNano(); until = l.silent.Load() {
		time.Sleep(20 * time.Millisecond)
	}
}

func (l *line) close() {
	l.client.Close()
	l.server.Close()
}

// Start starts a PostgreSQL server for the given number of replicas.
func Start(replicas int) (*Server, error) {
	c, err := pgtest.Start(pgtest.Durable)
	if err != nil {
		return nil, err
	}
	d := &Server{Cluster: c, lines: map[*line]struct{}{}}
	for i := range replicas {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, d.Stop())
		}
		d.lns = append(d.lns, ln)
		d.wg.Go(func() { d.accept(ln, i) })
	}
	return d, nil
}

// Ticketed creates the author's table, campaign_tickets.
func (d *Server) Ticketed(ctx context.Context) error {
	return d.With(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE TABLE campaign_tickets (id text PRIMARY KEY)")
		return err
	})
}

// Stop stops the server.
func (d *Server) Stop() error {
	for _, ln := range d.lns {
		ln.Close()
	}
	d.mu.Lock()
	for l := range d.lines {
		l.close()
	}
	d.mu.Unlock()
	d.wg.Wait()
	return d.Cluster.Stop()
}

// URL returns a connection string with which the replica connects through the relay.
func (d *Server) URL(replica int) string {
	u, err := url.Parse(d.Cluster.URL())
	if err != nil {
		panic(err) // we created it
	}
	u.Host = d.lns[replica].Addr().String()
	return u.String()
}

func (d *Server) accept(ln net.Listener, replica int) {
	for {
		client, err := ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(d.Cluster.Port())))
		if err != nil {
			client.Close()
			continue
		}
		l := &line{replica: replica, client: client, server: server}
		d.mu.Lock()
		d.lines[l] = struct{}{}
		d.mu.Unlock()
		d.wg.Go(func() { d.forwardRequests(l) })
		d.wg.Go(func() {
			d.forwardResponses(l)
			d.mu.Lock()
			delete(d.lines, l)
			d.mu.Unlock()
		})
	}
}

// forwardRequests forwards the client's messages. If the line is to be cut, it forwards one more message. The server
// executes that message, and the response is lost.
func (d *Server) forwardRequests(l *line) {
	defer l.close()
	b := make([]byte, 32<<10)
	for {
		n, err := l.client.Read(b)
		if n > 0 {
			d.withhold(l, b[:n])
			l.waitWhileSilent()
			if _, err := l.server.Write(b[:n]); err != nil {
				return
			}
			if l.cutting.Load() {
				l.client.Close()
				time.Sleep(50 * time.Millisecond) // the server reads everything before it detects that the connection is closed
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// forwardResponses forwards the server's responses, each after the configured delay.
func (d *Server) forwardResponses(l *line) {
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
		l.waitWhileSilent()
		if _, err := l.client.Write(c.text); err != nil {
			break
		}
	}
	l.close()
	for range chunks { // drain until the reading goroutine has ended
	}
}

// withhold waits until the trap is released if the message matches the trap.
func (d *Server) withhold(l *line, text []byte) {
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

// Trap withholds the replica's next message that contains all of texts. The caller must call release.
func (d *Server) Trap(replica int, texts ...string) (caught <-chan struct{}, release func()) {
	t := &trap{replica: replica, texts: texts, caught: make(chan struct{}), released: make(chan struct{})}
	d.mu.Lock()
	d.trap = t
	d.mu.Unlock()
	return t.caught, sync.OnceFunc(func() {
		d.mu.Lock()
		if d.trap == t {
			d.trap = nil
		}
		d.mu.Unlock()
		close(t.released)
	})
}

// Hush makes a random connection half-open for the given time. Nothing is forwarded, and neither side detects it. It
// returns the connection's replica.
func (d *Server) Hush(during time.Duration) (replica int) {
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

// Cut cuts a random connection after its client's next message. It returns the connection's replica, or -1 if there are
// no connections.
func (d *Server) Cut() (replica int) {
	l := d.anyLine()
	if l == nil {
		return -1
	}
	l.cutting.Store(true)
	return l.replica
}

func (d *Server) anyLine() *line {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lines) == 0 {
		return nil
	}
	all := slices.Collect(maps.Keys(d.lines))
	return all[rand.IntN(len(all))]
}

// Lock locks a table for the given time. It returns when it requested, acquired and released the lock. Statements that
// use the table wait from the time of the request onward.
func (d *Server) Lock(ctx context.Context, table string, during time.Duration) (asked, from, to time.Time, err error) {
	err = d.With(ctx, func(c *pgx.Conn) error {
		tx, err := c.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(context.WithoutCancel(ctx))
		asked = time.Now()
		if _, err := tx.Exec(ctx, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		from = time.Now()
		time.Sleep(during)
		to = time.Now()
		return nil
	})
	return asked, from, to, err
}

// Crowd occupies all free connections for the given time.
func (d *Server) Crowd(ctx context.Context, during time.Duration) error {
	var taken []*pgx.Conn
	most := 0
	if err := d.With(ctx, func(c *pgx.Conn) error {
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
		c, err := pgx.Connect(ctx, d.Cluster.URL())
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
	return errors.New("the database accepts any number of connections")
}

// Terminate terminates a random backend, as an operator or a failover does.
func (d *Server) Terminate(ctx context.Context) error {
	return d.With(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) AS one`)
		return err
	})
}

// Restart crashes the database, as a power failure would, and starts it again after a delay.
func (d *Server) Restart(away time.Duration) error {
	if err := d.Cluster.Crash(); err != nil {
		return err
	}
	time.Sleep(away)
	return d.Cluster.Start()
}

// With calls f and passes a connection that bypasses the relay.
func (d *Server) With(ctx context.Context, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, d.Cluster.URL())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}
