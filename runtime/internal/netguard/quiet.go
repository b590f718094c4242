package netguard

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
)

// readBuffer is the size of the buffer that the transport reads a connection through.
const readBuffer = 1 << 10

// A quietConn is heard only while an answer is due. http.Transport prints what an endpoint says at
// any other time to the program's standard logger, and has no option against it; nothing of an
// endpoint may get there (ERR-1). What comes unasked is thrown away and the connection has ended.
//
// An answer is due from the first byte of a request until the transport has put the connection back.
// Bytes that follow an answer must not reach the transport's buffer either, and where an answer ends
// is known to the transport alone. Therefore it is given no more than it is sure to use: a line of
// the head, or a byte, or into a slice larger than its buffer, which is the body's own, all there is.
type quietConn struct {
	net.Conn

	mu sync.Mutex
	// taken, asked and put count requests: this connection was chosen for them, their first byte
	// was written, the connection was put back. They may be reported late, but all are.
	taken, asked, put int
	ended             bool
	head              bool // the answer's head is being read
	text              bool // the head's current line is not blank
	pending           []byte
	err               error // what comes after pending

	store [readBuffer]byte
}

// listening returns a context whose request tells the connection it uses when it begins and ends.
func listening(ctx context.Context) context.Context {
	var c *quietConn
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			if c, _ = i.Conn.(*quietConn); c != nil {
				c.take()
			}
		},
		PutIdleConn: func(error) {
			if c != nil {
				c.putBack()
			}
		},
	})
}

func (c *quietConn) take() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken++
}

func (c *quietConn) putBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put++
	if len(c.pending) > 0 {
		c.ended = true // it must not pass for the next request's answer
	}
}

// Write sends p; the first one after the connection was chosen for a request makes an answer due.
func (c *quietConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.asked < c.taken {
		c.asked, c.head, c.text = c.taken, true, false
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// Read gives what came of the answer that is due, or io.EOF when something came unasked.
func (c *quietConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	fill := len(c.pending) == 0 && c.err == nil && len(p) > 0
	c.mu.Unlock()
	if fill {
		// Here the connection is waited on while it is idle.
		n, err := c.Conn.Read(c.store[:])
		c.mu.Lock()
		c.pending, c.err = c.store[:n], err
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 || len(p) == 0 {
		return 0, c.err
	}
	if c.ended || c.asked <= c.put {
		c.ended, c.pending, c.err = true, nil, io.EOF
		return 0, io.EOF
	}
	n := copy(p, c.pending[:c.safe(len(p))])
	c.pending = c.pending[n:]
	return n, nil
}

// safe is how many pending bytes the transport is sure to use when it reads into size bytes.
func (c *quietConn) safe(size int) int {
	if !c.head {
		if size > readBuffer {
			return len(c.pending)
		}
		return 1
	}
	end := bytes.IndexByte(c.pending, '\n') + 1
	n := end
	if end == 0 {
		n = len(c.pending)
	}
	n = min(n, size)
	c.text = c.text || len(bytes.Trim(c.pending[:n], " \t\r\n")) > 0
	if n == end {
		// An interim answer's head ends here too; then the final one's goes by single bytes.
		c.head, c.text = c.text, false
	}
	return n
}
