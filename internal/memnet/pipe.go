package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// bufferSize is the number of bytes that one end can write before the other end reads.
const bufferSize = 4 << 10

// Pipe returns the two ends of a connection. Like sockets and unlike [net.Pipe], they have a small buffer. Both ends
// can therefore write at the same time, for example TLS close alerts. Without a buffer, each end would wait for the
// other while holding a mutex of net/http, which would stop the time of a bubble.
func Pipe() (net.Conn, net.Conn) {
	a, b := newHalf(), newHalf()
	return &conn{in: a, out: b}, &conn{in: b, out: a}
}

// A half is one direction of a connection.
type half struct {
	mu      sync.Mutex
	moved   sync.Cond // signals any change
	data    []byte
	ended   bool // the writer is done
	unread  bool // the reader is done
	reading deadline
	writing deadline
}

func newHalf() *half {
	h := new(half)
	h.moved.L = &h.mu
	return h
}

// A deadline is a read or write deadline. The half's mutex guards it.
type deadline struct {
	at    time.Time // zero: never
	timer *time.Timer
}

func (d *deadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// set changes a deadline of h.
func (h *half) set(d *deadline, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.at, d.timer = at, nil
	if wait := time.Until(at); wait > 0 { // otherwise expired or never
		d.timer = time.AfterFunc(wait, func() { h.change(func() {}) })
	}
	h.moved.Broadcast()
}

func (h *half) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	h.moved.Broadcast()
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.unread:
			return 0, io.ErrClosedPipe
		case h.reading.over():
			return 0, os.ErrDeadlineExceeded
		case len(h.data) > 0 || len(p) == 0:
			n := copy(p, h.data)
			h.data = append(h.data[:0], h.data[n:]...)
			h.moved.Broadcast()
			return n, nil
		case h.ended:
			return 0, io.EOF
		}
		h.moved.Wait()
	}
}

func (h *half) write(p []byte) (written int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.ended || h.unread:
			return written, io.ErrClosedPipe
		case h.writing.over():
			return written, os.ErrDeadlineExceeded
		}
		n := min(len(p), bufferSize-len(h.data))
		h.data, p, written = append(h.data, p[:n]...), p[n:], written+n
		if n > 0 {
			h.moved.Broadcast()
		}
		if len(p) == 0 {
			return written, nil
		}
		h.moved.Wait()
	}
}

// A conn is one end.
type conn struct{ in, out *half }

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close closes both directions. The other end can still read buffered data.
func (c *conn) Close() error {
	c.SetDeadline(time.Time{})
	c.out.change(func() { c.out.ended = true })
	c.in.change(func() { c.in.unread = true })
	return nil
}

// The address is not a loopback address, so servers do not treat requests as local.
func (c *conn) LocalAddr() net.Addr  { return inMemory{} }
func (c *conn) RemoteAddr() net.Addr { return inMemory{} }

type inMemory struct{}

func (inMemory) Network() string { return "memory" }
func (inMemory) String() string  { return "memory" }

func (c *conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	c.SetWriteDeadline(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.set(&c.in.reading, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.set(&c.out.writing, t)
	return nil
}
