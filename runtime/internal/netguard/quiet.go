package netguard

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
)

// readBuffer is the size of the transport's read buffer for a connection.
const readBuffer = 1 << 10

// A quietConn delivers data only while an answer is due. http.Transport logs data that an endpoint sends at any other
// time to the program's standard logger, and has no option to turn that off; no data of an endpoint may get there
// (ERR-1). A quietConn discards unsolicited data and ends the connection.
//
// An answer is due from the first byte of a request until the transport has put the connection back. Bytes after an
// answer must not reach the transport's buffer either, and only the transport knows where an answer ends. Therefore
// Read returns no more than the transport is certain to use: a line of the head, or one byte, or all data if the slice
// is larger than the transport's buffer, since that is the body's reader.
type quietConn struct {
	net.Conn

	mu sync.Mutex
	// taken, asked and put count requests: this connection was chosen for them, their first byte was written, the
	// connection was put back. The reports may be late, but all arrive.
	taken, asked, put int
	ended             bool
	head              bool // the answer's head is being read
	text              bool // the head's current line is not blank
	pending           []byte
	err               error // the error after pending

	store [readBuffer]byte
}

// listening returns a context whose request reports its start and end to its connection.
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
		c.ended = true // it must not be taken for the next request's answer
	}
}

// Write sends p. The first call after the connection was chosen for a request makes an answer due.
func (c *quietConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.asked < c.taken {
		c.asked, c.head, c.text = c.taken, true, false
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// Read returns data of the answer that is due, or io.EOF after unsolicited data.
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
	if c.ended || c.asked <= c.put {
		c.ended, c.pending, c.err = true, nil, io.EOF
		return 0, io.EOF
	}
	n := copy(p, c.pending[:c.safe(len(p))])
	c.pending = c.pending[n:]
	return n, nil
}

// safe returns how many pending bytes the transport is certain to use when it reads into size bytes.
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
		// The head of an interim response ends here as well; then the final head is read by single bytes.
		c.head, c.text = c.text, false
	}
	return n
}
