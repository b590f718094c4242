package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// An sseFilter reads an SSE body event by event, hands the extension's notifications to the board
// and passes everything else on, byte for byte.
type sseFilter struct {
	body  io.ReadCloser
	in    *bufio.Reader
	board *board
	own   *call
	ctx   context.Context
	limit int64 // of one block
	ended bool  // the reason for the end is known

	out []byte // of buf, not yet read
	buf []byte
	err error
}

func newSSEFilter(body io.ReadCloser, b *board, own *call, ctx context.Context, limit int64) *sseFilter {
	return &sseFilter{body: body, in: bufio.NewReaderSize(body, 16<<10), board: b, own: own, ctx: ctx, limit: limit}
}

func (f *sseFilter) Close() error { return f.body.Close() }

func (f *sseFilter) Read(p []byte) (int, error) {
	for len(f.out) == 0 {
		if f.err != nil {
			f.over()
			return 0, f.err
		}
		f.next()
	}
	n := copy(p, f.out)
	f.out = f.out[n:]
	return n, nil
}

// next reads one block: lines up to an empty one or the end of the body.
func (f *sseFilter) next() {
	f.buf = f.buf[:0]
	data, lines, whole := []byte(nil), 0, false
	for {
		start := len(f.buf)
		if !f.line() {
			break
		}
		line := bytes.TrimRight(f.buf[start:], "\r\n")
		if len(line) == 0 {
			whole = f.err == nil
			break
		}
		if f.streaming() && (bytes.HasPrefix(line, []byte("id:")) || bytes.HasPrefix(line, []byte("retry:"))) {
			// With an id the SDK would resume a broken stream by itself; ours resumes from its
			// cursor, and a failure to resume would end the whole session.
			f.buf = f.buf[:start]
			continue
		}
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if lines++; lines > 1 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
		if f.err != nil {
			break
		}
	}
	if !whole && len(data) == 0 {
		return
	}
	if len(data) > 0 {
		m, err := jsonrpc.DecodeMessage(data)
		if err != nil {
			// The SDK would take it for the end of the session.
			if whole && f.own != nil {
				f.finish(fmt.Errorf("no JSON-RPC message: %w: %s", err, clipped(data)))
			}
			return
		}
		if _, ok := m.(*jsonrpc.Response); ok {
			f.ended = true
		}
	}
	if !f.consume(data) {
		f.out = f.buf
	}
}

// finish ends the body early because of what the server sent.
func (f *sseFilter) finish(reason error) {
	f.ended, f.err = true, io.EOF
	if f.own == nil {
		f.err = reason
		return
	}
	f.own.fail(&AnswerError{Method: f.own.method, Err: reason})
}

// over tells the call why its body ended without a response.
func (f *sseFilter) over() {
	if f.ended || f.own == nil {
		return
	}
	f.ended = true
	if f.err != io.EOF {
		f.own.fail(fmt.Errorf("client: the stream broke off: %w", f.err))
		return
	}
	f.own.fail(errStreamEnded)
}

func (f *sseFilter) streaming() bool { return f.own != nil && f.own.in != nil }

// line appends one line with its end to buf; false at the end of the body with nothing read.
func (f *sseFilter) line() bool {
	start := len(f.buf)
	for {
		part, err := f.in.ReadSlice('\n')
		f.buf = append(f.buf, part...)
		if int64(len(f.buf)) > f.limit {
			f.finish(errTooLarge("an SSE event", f.limit))
			return false
		}
		if err == nil {
			return true
		}
		if err != bufio.ErrBufferFull {
			f.err = err
			return len(f.buf) > start
		}
	}
}

// consume handles the data of one block and reports whether it is not for the SDK.
func (f *sseFilter) consume(data []byte) bool {
	if len(data) == 0 {
		return false
	}
	watched := f.board.others != nil && f.board.others.watching()
	if watched || bytes.Contains(data, []byte(wire.NotificationPrefix)) || bytes.Contains(data, []byte(notificationListenAck)) {
		var m struct {
			Method string          `json:"method"`
			ID     json.RawMessage `json:"id"`
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(data, &m) == nil && m.ID == nil {
			switch {
			case strings.HasPrefix(m.Method, wire.NotificationPrefix):
				f.board.dispatch(f.ctx, frame{m.Method, m.Params}, f.own)
				return true
			case watched && m.Method != notificationListenAck && m.Method != "":
				f.board.others.observed(m.Method, m.Params)
			case m.Method == notificationListenAck:
				f.board.dispatch(f.ctx, frame{m.Method, m.Params}, f.own)
			}
		}
	}
	if f.board.observing() {
		f.board.observe(resultOf(data))
	}
	return false
}
