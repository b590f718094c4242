package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// An sseFilter reads an SSE body event by event, hands the extension's notifications to the board
// and passes everything else on, byte for byte.
type sseFilter struct {
	body  io.ReadCloser
	in    *bufio.Reader
	board *board
	own   *call
	id    string // of own's request
	ctx   context.Context
	limit int64 // of one block
	ended bool  // the reason for the end is known

	out []byte // not yet read
	err error
}

func newSSEFilter(ctx context.Context, body io.ReadCloser, b *board, own *call, id string, limit int64) *sseFilter {
	return &sseFilter{body: body, in: bufio.NewReaderSize(body, 16<<10), board: b, own: own, id: id, ctx: ctx, limit: limit}
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
	block, whole := f.block()
	data := dataOf(block)
	switch {
	case len(data) > 0:
		f.out = f.pass(block, data, whole)
	case whole && !f.streaming():
		f.out = block
	}
}

// pass handles the data of one block and returns what of it is for the SDK.
func (f *sseFilter) pass(block, data []byte, whole bool) []byte {
	m, err := decodeMessage(data)
	if err != nil {
		// The SDK would take it for the end of the session.
		if whole && f.own != nil {
			f.finish(fmt.Errorf("no JSON-RPC message: %w: %s", err, clipped(data)))
		}
		return nil
	}
	switch m := m.(type) {
	case *jsonrpc.Request:
		if m.IsCall() && f.streaming() {
			// Each would be answered by a request of ours (PUSH-9).
			f.finish(errors.New("a request, " + clipped([]byte(m.Method)) + ", on a stream of events"))
			return nil
		}
		if !m.IsCall() && f.consume(frame{m.Method, m.Params}) {
			return nil
		}
	case *jsonrpc.Response:
		f.ended = true
		f.board.observe(m.Result)
		if f.own != nil && len(m.Result) > 0 && m.Error == nil && idText(m.ID.Raw()) == f.id {
			return sseEvent(f.own.answered(m))
		}
	}
	if f.streaming() {
		// With an id the SDK would resume a broken stream by itself; ours resumes from its cursor, and a
		// failure to resume would end the whole session.
		return sseEvent(data)
	}
	return block
}

// sseEvent is an event of that data, in which line breaks are nothing but white space.
func sseEvent(data []byte) []byte {
	return fmt.Appendf(nil, "event: message\ndata: %s\n\n", bytes.ReplaceAll(data, []byte("\n"), []byte(" ")))
}

// dataOf is the data of a block. That of one line shares its memory.
func dataOf(block []byte) (data []byte) {
	for line := range bytes.Lines(block) {
		value, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:"))
		if !ok {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		if data == nil {
			data = value[:len(value):len(value)]
			continue
		}
		data = append(append(data, '\n'), value...)
	}
	return data
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
		f.own.fail(brokeOff("the stream broke off", f.err))
		return
	}
	f.own.fail(errStreamEnded)
}

func (f *sseFilter) streaming() bool { return f.own != nil && f.own.in != nil }

// block reads up to an empty line, and says whether there was one.
func (f *sseFilter) block() (block []byte, whole bool) {
	var g gathering
	for begins := true; ; {
		part, err := f.in.ReadSlice('\n')
		g.add(part)
		if g.size > f.limit {
			f.finish(errTooLarge("an SSE event", f.limit))
			return nil, false
		}
		switch {
		case err == nil && begins && len(bytes.TrimRight(part, "\r\n")) == 0:
			return g.bytes(), true
		case err != nil && err != bufio.ErrBufferFull:
			f.err = err
			return g.bytes(), false
		}
		begins = err == nil
	}
}

// consume takes a notification and reports whether it is not for the SDK.
func (f *sseFilter) consume(n frame) bool {
	switch {
	case strings.HasPrefix(n.method, wire.NotificationPrefix):
		f.board.dispatch(f.ctx, n, f.own)
		return true
	case n.method == notificationListenAck:
		f.board.dispatch(f.ctx, n, f.own)
	case f.board.others != nil && f.board.others.watching():
		f.board.others.observed(n.method, n.params)
	}
	return false
}
