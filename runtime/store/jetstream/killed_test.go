package jetstream_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/killtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

var errKilled = errors.New("the process is killed")

// A killable creates the connections of a process that can be killed.
type killable struct {
	mu    sync.Mutex
	conns []net.Conn
	left  int                // writes until the process is killed
	dead  context.CancelFunc // nil while it lives on, called when it is killed
}

func (m *killable) Dial(network, address string) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead != nil && m.left < 0 {
		return nil, errKilled
	}
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	m.conns = append(m.conns, c)
	return &killableConn{c, m}, nil
}

// killAfter kills the process after the given number of writes and then calls dead.
func (m *killable) killAfter(writes int, dead context.CancelFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.dead = writes, dead
}

type killableConn struct {
	net.Conn
	m *killable
}

func (c *killableConn) Write(b []byte) (int, error) {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead == nil {
		return c.Conn.Write(b)
	}
	if m.left--; m.left < 0 {
		for _, c := range m.conns {
			c.Close()
		}
		m.dead()
		return 0, errKilled
	}
	return c.Conn.Write(b)
}

// CLI-6: a process killed between two writes of TakeReceived has taken all bodies or none.
func TestCLI6TakeReceivedKilled(t *testing.T) {
	t.Parallel()
	killtest.BetweenWrites(t, killtest.TakeReceived(), func(t *testing.T, writes int, c killtest.Call[killtest.Receiver]) (killtest.Receiver, bool) {
		var process killable
		o := jetstream.Options{Namespace: space(), Single: true, Connect: []nats.Option{nats.SetCustomDialer(&process)}}
		victim := open(t, alone.ClientURL(), o)
		if err := c.Prepare(t.Context(), victim); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		process.killAfter(writes, cancel)
		failed := c.Do(ctx, victim)
		o.Connect = nil
		return open(t, alone.ClientURL(), o), failed == nil
	})
}
