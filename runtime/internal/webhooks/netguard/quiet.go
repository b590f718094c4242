package netguard

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
)

// readBuffer is the size of the transport's read buffer for each connection.
const readBuffer = 1 << 10

// A quietConn only delivers data while a response is expected. It discards unsolicited data and closes the connection.
// Data from an endpoint must not be logged (ERR-1). However, http.Transport logs unsolicited data with the standard
// logger, and has no option to disable this.
//
// A response is expected from the first byte of a request until the transport returns the connection to its pool. Bytes
// after a response must not reach the transport's buffer either, but only the transport knows where a response ends.
// Therefore Read only returns data that the transport is certain to use. Such data is a line of the header or a single
// byte. If the slice is larger than the transport's buffer, it belongs to the reader of the body, and Read returns all
// data.
type quietConn struct {
	net.Conn

	mu sync.Mutex
	// The field assigned counts the requests for which this connection was chosen. The field started counts the
	// requests with at least one byte written. The field returned counts the requests after which the connection was
	// returned to the pool. The counters may lag behind.
	assigned, started, returned int
	ended                       bool
	head                        bool // the answer's head is being read
	text                        bool // the head's current line is not blank
	pending                     []byte
	err                         error // the error after pending

	store [readBuffer]byte
}

// withTrace returns a context for a request. The context notifies the connection of the start and end of the request.
func withTrace(ctx context.Context) context.Context {
	var c *quietConn
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			if c, _ = i.Conn.(*quietConn); c != nil {
				c.assign()
			}
		},
		PutIdleConn: func(error) {
			if c != nil {
				c.putBack()
			}
		},
	})
}

func (c *quietConn) assign() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.assigned++
}

func (c *quietConn) putBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.returned++
	if len(c.pending) > 0 {
		c.ended = true // it must not be taken for the next request's answer
	}
}

// Write sends p. A response is expected after the first call for each request.
func (c *quietConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.started < c.assigned {
		c.started, c.head, c.text = c.assigned, true, false
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// Read reads data of the response that is currently expected. It returns io.EOF after unsolicited data.
func (c *quietConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	fill := len(c.pending) == 0 && c.err == nil && len(p) > 0
	c.mu.Unlock()
	if fill {
		// An idle connection waits here.
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
	if c.ended || c.started <= c.returned {
		c.ended, c.pending, c.err = true, nil, io.EOF
		return 0, io.EOF
	}
	n := copy(p, c.pending[:c.safeLen(len(p))])
	c.pending = c.pending[n:]
	return n, nil
}

// safeLen returns the number of pending bytes that the transport is certain to use if it reads up to size bytes.
func (c *quietConn) safeLen(size int) int {
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
		// The head of an interim response also ends here. In this case, the final head is read in single bytes.
		c.head, c.text = c.text, false
	}
	return n
}
