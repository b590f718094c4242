package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A lineConn is a connection that reads and writes newline-delimited messages.
type lineConn struct {
	in    io.Writer
	limit int64
	log   *slog.Logger

	messages chan jsonrpc.Message
	read     chan struct{} // closed when out has ended, after readErr is set
	readErr  error
	writing  sync.Mutex
	closed   chan struct{}
}

// newLineConn returns a connection and starts reading from out.
func newLineConn(out io.Reader, in io.Writer, limit int64, log *slog.Logger) *lineConn {
	limit = cmp.Or(max(limit, 0), defaultMessage)
	l := &lineConn{in: in, limit: limit, log: log,
		messages: make(chan jsonrpc.Message), read: make(chan struct{}), closed: make(chan struct{})}
	go l.pump(out)
	return l
}

// pump reads stdout until EOF, even after the connection is closed, because a process that cannot write may not exit.
func (c *lineConn) pump(out io.Reader) {
	in := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := readLine(in, c.limit)
		if err != nil {
			if err != io.EOF {
				c.log.Warn("reading the process ended", "err", err)
			}
			c.readErr = err
			close(c.read)
			io.Copy(io.Discard, in)
			return
		}
		messages := decodeLine(line)
		if messages == nil && len(line) > 0 {
			c.log.Debug("skipped a line of stdout that is not a message", "line", string(line[:min(len(line), 200)]))
		}
		for _, m := range messages {
			select {
			case c.messages <- m:
			case <-c.closed:
			}
		}
	}
}

// readLine returns the next line without its newline. The last line need not end with a newline.
func readLine(r *bufio.Reader, limit int64) ([]byte, error) {
	var line pieceBuffer
	for {
		part, err := r.ReadSlice('\n')
		line.add(part)
		if line.size > limit {
			return nil, errTooLarge("a line", limit)
		}
		if err == nil || err == io.EOF && line.size > 0 {
			return bytes.TrimSpace(line.bytes()), nil
		}
		if err != bufio.ErrBufferFull {
			return nil, io.EOF
		}
	}
}

// decodeLine returns the message in a line, or all messages of a batch. It returns nil if the line is invalid.
func decodeLine(line []byte) []jsonrpc.Message {
	if len(line) == 0 {
		return nil
	}
	switch line[0] {
	case '{':
		if m, err := decodeMessage(line); err == nil {
			return []jsonrpc.Message{m}
		}
	case '[':
		var parts []json.RawMessage
		if json.Unmarshal(line, &parts) != nil {
			return nil
		}
		var batch []jsonrpc.Message
		for _, part := range parts {
			m, err := decodeMessage(part)
			if err != nil {
				return nil
			}
			batch = append(batch, m)
		}
		return batch
	}
	return nil
}

func (c *lineConn) SessionID() string { return "" }

func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.messages:
		return m, nil
	case <-c.read:
		return nil, c.readErr
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *lineConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err = c.in.Write(append(data, '\n'))
	return err
}

func (c *lineConn) close() { close(c.closed) }
