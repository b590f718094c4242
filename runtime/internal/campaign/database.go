package main

import (
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

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pgtest"
)

// A database is a PostgreSQL that the replicas reach through a relay, each by an address of its own. The
// relay can be slow and can cut connections.
type database struct {
	cluster *pgtest.Cluster
	lns     []net.Listener
	wg      sync.WaitGroup
	delay   atomic.Int64 // of each answer, in nanoseconds

	mu    sync.Mutex
	lines map[*line]struct{}
}

// A line is one connection through the relay.
type line struct {
	replica        int
	client, server net.Conn
	cutting        atomic.Bool // after what the client sends next
}

func (l *line) close() {
	l.client.Close()
	l.server.Close()
}

func startDatabase() (*database, error) {
	c, err := pgtest.Start(pgtest.Durable)
	if err != nil {
		return nil, err
	}
	d := &database{cluster: c, lines: map[*line]struct{}{}}
	for i := range replicas {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, d.stop())
		}
		d.lns = append(d.lns, ln)
		d.wg.Go(func() { d.accept(ln, i) })
	}
	return d, nil
}

func (d *database) stop() error {
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

// url is a replica's connection string, through the relay.
func (d *database) url(replica int) string {
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
		if _, err := l.client.Write(c.text); err != nil {
			break
		}
	}
	l.close()
	for range chunks { // until its reader has ended
	}
}

// cut lets some connection end after what its client sends next, and returns whose; -1 for nobody's.
func (d *database) cut() (replica int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lines) == 0 {
		return -1
	}
	all := slices.Collect(maps.Keys(d.lines))
	l := all[rand.IntN(len(all))]
	l.cutting.Store(true)
	return l.replica
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

// owner returns the name of the replica that owns the shard, "" for none.
func (d *database) owner(ctx context.Context, topic string) (name string, err error) {
	err = d.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT coalesce((SELECT l.name FROM mcpe.shards s JOIN mcpe.leases l ON l.fence = s.fence
			WHERE s.topic = $1 AND l.expires > clock_timestamp() ORDER BY s.number LIMIT 1), '')`, topic).Scan(&name)
	})
	return name, err
}
